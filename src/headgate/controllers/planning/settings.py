"""Where planning finds its ConfigMaps, and how steady what it scales itself is."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate.planning.config_maps import NAMESPACE
from headgate.planning.sizing import PERCENTILE


class PlanningSettings(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str = NAMESPACE
    """Of the ConfigMaps."""
    environment: Mapping[str, str] = {}
    """Variables of the process, which come before settings of the same name in the ConfigMap."""
    window_s: float | None = None
    """Workloads that are scaled directly lose replicas once so few were wanted for this time; None: by how
    much the load varies."""
    gather_s: float = 0.5
    """Changes that come within this time are one reason for a pass."""
    look_s: float = 1.0
    """How often loads are compared with those that were planned for."""
    percentile: float = PERCENTILE
    """Share of requests, in percent, that must meet `slo-ttft` of classes without `slo-percentile`."""
