"""Whatever is edited in a Model that changes its Pods, former Pods serve until new ones do."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_of_models import backend

pytestmark = [pytest.mark.whole, pytest.mark.timeout(900)]

RESOURCES = {"requests": {"cpu": "10m"}}
ON_LINUX = {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}
AFFINITY = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": ON_LINUX}]
    }
}
EDITS: dict[str, dict[str, Any]] = {
    "config": {"workers": [{"type": "server", "config": {"max-model-len": 4096}}]},
    "port": {"workers": [{"type": "server", "config": {"port": 9000}}]},
    "served name": {"workers": [{"type": "server", "config": {"served-model-name": "other"}}]},
    "image": {"workers": [{"type": "server", "image": "other/engine:1"}]},
    "resources": {"workers": [{"type": "server", "resources": RESOURCES}]},
    "affinity": {"workers": [{"type": "server", "affinity": AFFINITY}]},
    "weights": {"modelURI": "pvc://others"},
    "cache": {"cacheURI": "pvc://others"},
    "env": {"env": [{"name": "COLOR", "value": "blue"}]},
    "environment from elsewhere": {"envFrom": [{"configMapRef": {"name": "settings", "optional": True}}]},
    "port of the sidecar": {"env": [{"name": "RUNTIME_PORT", "value": "8200"}]},
}


async def test_pods_are_replaced(models, under_load):
    """One field after the other, and back."""
    await models.put(backend())
    await models.settled()
    async with under_load() as load:
        for field, edit in EDITS.items():
            load.answered.clear()
            await models.put(backend(**edit))
            await models.settled()
            await load.goes_on()
            assert len(load.pods("m")) > 1, f"no new Pod after an edit of {field}: {load.answered}"
            load.has_no_failure(field)
