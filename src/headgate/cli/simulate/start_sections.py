"""How engines start, and how requests wait for them, as a fleet file has it."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from headgate.flow.queue import FlowSettings
from headgate.simulator.fleet import ColdStart

SECONDS = msgspec.Meta(ge=0.0, extra={"duration": True})
"""Marks seconds that a file may also write as 90s or 1m30s."""


class ColdStartSection(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to start an engine, and when engines run."""

    model_bytes: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    bytes_per_s: Annotated[float, msgspec.Meta(ge=1)] = 2e9
    """From where the model is."""
    constant: Annotated[float, SECONDS] = 0.0
    """For all else: a node, an image, a process."""
    running: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Replicas that run from the beginning; all if it is not said."""
    stop_idle: Annotated[float, SECONDS] | None = None
    """An engine without requests for so long stops; none does if it is not said."""

    def settings(self) -> ColdStart:
        return ColdStart(
            model_bytes=self.model_bytes,
            bytes_per_s=self.bytes_per_s,
            constant_s=self.constant,
            running=self.running,
            stop_idle_s=math.inf if self.stop_idle is None else self.stop_idle,
        )


class QueueSection(msgspec.Struct, frozen=True, kw_only=True):
    """How requests wait in the gateway while no engine has room for them."""

    ttl: Annotated[float, SECONDS] = 60.0
    """How long a request may wait; 0 is no bound."""
    no_endpoint_ttl: Annotated[float, SECONDS] = 60.0
    """How long, where no engine runs."""
    max_requests: Annotated[int, msgspec.Meta(ge=0)] = 5000
    """That may wait; 0 is no bound."""

    def settings(self) -> FlowSettings:
        return FlowSettings(
            ttl_s=self.ttl, no_endpoint_ttl_s=self.no_endpoint_ttl, max_requests=self.max_requests
        )
