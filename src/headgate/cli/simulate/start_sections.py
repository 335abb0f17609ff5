"""Fleet file sections: how engines start, and how requests wait for them."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from headgate.flow.queue import FlowSettings
from headgate.simulator.fleet import ColdStart

SECONDS = msgspec.Meta(ge=0.0, extra={"duration": True})
"""Marks seconds that a file may also write as 90s or 1m30s."""


class ColdStartSection(msgspec.Struct, frozen=True, kw_only=True):
    """How long an engine takes to start, and when engines run."""

    model_bytes: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    bytes_per_s: Annotated[float, msgspec.Meta(ge=1)] = 2e9
    """Bandwidth of the storage that the model is loaded from."""
    constant: Annotated[float, SECONDS] = 0.0
    """Everything else: node, image and process."""
    running: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Replicas that run from the beginning; all if unset."""
    stop_idle: Annotated[float, SECONDS] | None = None
    """Stop an engine after this long without requests; never if unset."""

    def settings(self) -> ColdStart:
        return ColdStart(
            model_bytes=self.model_bytes,
            bytes_per_s=self.bytes_per_s,
            constant_s=self.constant,
            running=self.running,
            stop_idle_s=math.inf if self.stop_idle is None else self.stop_idle,
        )


class QueueSection(msgspec.Struct, frozen=True, kw_only=True):
    """How requests wait in the gateway while no engine has capacity for them."""

    ttl: Annotated[float, SECONDS] = 60.0
    """How long a request may wait; 0 is unlimited."""
    no_endpoint_ttl: Annotated[float, SECONDS] = 60.0
    """How long a request may wait while no engine runs."""
    max_requests: Annotated[int, msgspec.Meta(ge=0)] = 5000
    """Queued requests; 0 is unlimited."""

    def settings(self) -> FlowSettings:
        return FlowSettings(
            ttl_s=self.ttl, no_endpoint_ttl_s=self.no_endpoint_ttl, max_requests=self.max_requests
        )
