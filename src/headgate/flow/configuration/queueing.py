"""What a configuration comes to: how requests wait for a pool, and when it has room."""

from __future__ import annotations

import msgspec

from headgate.flow.capacity import CapacitySettings
from headgate.flow.queue import FlowSettings


class Queueing(msgspec.Struct, frozen=True, kw_only=True):
    """Of every pool."""

    flow: FlowSettings = FlowSettings()
    capacity: CapacitySettings = CapacitySettings()
    flow_header: str = ""
    """The header whose value is the flow of a request, in lower case; "" leaves that to the gateway."""
