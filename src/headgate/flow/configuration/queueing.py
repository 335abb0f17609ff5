"""Queue and capacity settings that a configuration results in."""

from __future__ import annotations

import msgspec

from headgate.flow.capacity import CapacitySettings
from headgate.flow.queue import FlowSettings


class Queueing(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of every pool."""

    flow: FlowSettings = FlowSettings()
    capacity: CapacitySettings = CapacitySettings()
    flow_header: str = ""
    """The header that names the flow of a request, in lower case; "" leaves it to the gateway."""
