"""KEDA scales engines by signals of their pool: from zero while the first request waits, up, and to zero."""

from __future__ import annotations

import threading
import time

import pytest

SLOW_S = 240.0
"""KEDA's own autoscaler looks every 15 s."""
COOLDOWN_S = 30
pytestmark = [pytest.mark.timeout(900), pytest.mark.parametrize("helm", ["3"], indirect=True)]


def test_the_first_request_waits_for_its_engine_and_load_for_more(
    cluster, model, keda, keep_busy, run_prometheus, chart, eventually
):
    """Before, while Prometheus does not have the metrics, the last engine stays."""
    prometheus = run_prometheus(chart, "gateway")
    eventually(lambda: len(prometheus.query("headgate_gateway_pool_work_seconds")) == 2)
    cluster.kubectl(*model.command("annotate modelserver"))
    eventually(lambda: len(prometheus.query("headgate_gateway_pool_starts_from_zero == 1")) == 2)
    words = {
        "http://prometheus.monitoring:9090": prometheus.url,
        f"cooldownPeriod: {COOLDOWN_S}0": f"cooldownPeriod: {COOLDOWN_S}",
        "pollingInterval: 5": "pollingInterval: 1",
    }
    lost = model.manifest("ScaledObject", **words, **{"sum(headgate_": "sum(lost_"})
    cluster.apply(lost, namespace=model.namespace)
    eventually(lambda: _is_ready(model) == "False", SLOW_S)
    began = time.monotonic()
    while time.monotonic() - began < 1.5 * COOLDOWN_S:
        assert model.replicas() == 1
    cluster.apply(model.manifest("ScaledObject", **words), namespace=model.namespace)
    eventually(lambda: model.replicas() == 0, SLOW_S)
    eventually(lambda: _is_ready(model) == "True")
    # The last engine may still serve a moment after nobody wants it any more.
    eventually(lambda: model.endpoints() == 0)

    answers: list[int] = []
    first = threading.Thread(target=lambda: answers.append(model.ask().status_code))
    first.start()
    first.join(SLOW_S)
    assert answers == [200]
    assert model.replicas() >= 1

    enough = keep_busy(model)
    eventually(lambda: model.replicas() == 3, SLOW_S)
    assert model.get("hpa", "keda-hpa-chat")["spec"]["scaleTargetRef"]["name"] == "chat"
    enough.set()
    eventually(lambda: model.replicas() == 0, SLOW_S)


def _is_ready(model) -> str:
    """The status of the condition of the ScaledObject; empty if it has none."""
    conditions = model.get("scaledobject").get("status", {}).get("conditions", [])
    return next((each["status"] for each in conditions if each["type"] == "Ready"), "")
