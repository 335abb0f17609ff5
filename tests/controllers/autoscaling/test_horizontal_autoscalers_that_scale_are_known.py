"""A HorizontalPodAutoscaler counts as one that scales once it has metrics, or has brought a workload within
its bounds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.controllers.autoscaling.workloads import Horizontal


@pytest.mark.parametrize(
    ("status", "scales"),
    [
        ({}, False),
        ({"conditions": [{"type": "ScalingActive", "status": "False"}]}, False),
        ({"conditions": [{"type": "ScalingActive", "status": "True"}]}, True),
        (
            {
                "conditions": [{"type": "ScalingActive", "status": "False"}],
                "lastScaleTime": "2026-01-01T00:00:00Z",
            },
            True,
        ),
    ],
)
def test_it_is_told_by_the_status(status: dict[str, Any], scales: bool) -> None:
    """Without metrics, it still keeps its minimum, so a binding would fight with it for ever."""
    assert msgspec.convert({"status": status}, Horizontal).is_active is scales
