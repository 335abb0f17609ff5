"""Whether a HorizontalPodAutoscaler scales at present, which decides if an older binding yields to it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.controllers.autoscaling.workloads import Horizontal

SCALED_OBJECT = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "chat", "uid": "1"}
MODEL = {"apiVersion": "workload.serving.volcano.sh/v1alpha1", "kind": "Model", "name": "chat", "uid": "1"}


def horizontal(status: str, reason: str, *owners: dict[str, Any]) -> Horizontal:
    condition = {"type": "ScalingActive", "status": status, "reason": reason}
    able = {"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale"}
    manifest = {
        "metadata": {"name": "chat", "namespace": "team-a", "ownerReferences": [*owners]},
        "status": {"conditions": [able, condition]},
    }
    return msgspec.convert(manifest, Horizontal)


@pytest.mark.parametrize("owners", [(), (SCALED_OBJECT,)], ids=["alone", "of KEDA"])
def test_with_metrics_it_scales_and_without_it_does_not(owners):
    assert horizontal("True", "ValidMetricFound", *owners).is_active
    assert not horizontal("False", "FailedGetExternalMetric", *owners).is_active
    assert not horizontal("Unknown", "", *owners).is_active


def test_at_zero_only_kedas_is_active():
    """KEDA adds the first replica itself; nobody does so for another one."""
    assert horizontal("False", "ScalingDisabled", SCALED_OBJECT).is_active
    assert not horizontal("False", "ScalingDisabled").is_active
    assert not horizontal("False", "ScalingDisabled", MODEL).is_active


def test_one_that_has_brought_a_workload_within_its_bounds_does_so_again():
    """That needs no metrics, so that a binding would fight with it for ever."""
    found = horizontal("False", "FailedGetExternalMetric")
    status = msgspec.structs.replace(found.status, last_scale_time="2026-01-01T00:00:00Z")
    assert msgspec.structs.replace(found, status=status).is_active


def test_a_new_one_is_not_active_yet():
    assert not Horizontal().is_active
