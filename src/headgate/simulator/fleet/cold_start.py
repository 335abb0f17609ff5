"""How long an engine takes to start, and when engines of a group run at all."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from headgate.flow.queue import FlowSettings


class ColdStart(msgspec.Struct, frozen=True, kw_only=True):
    """Of a group. Checked as part of a `FleetDescription`.

    While requests wait in the gateway's queue, the group starts one engine after the other. This is a rule of
    the simulation, not of an autoscaler: it shows what loading a model costs.
    """

    model_bytes: float = 0.0
    """What an engine reads before it serves."""
    bytes_per_s: float = 2e9
    """From where the model is; 2 GB/s is a good local disk."""
    constant_s: float = 0.0
    """For all else: a node, an image, a process, its graphs."""
    running: int | None = None
    """Engines that run from the beginning, the first ones of the group; None is all."""
    stop_idle_s: float = math.inf
    """An engine without requests for so long stops, and its cache is gone. Infinite is never."""

    @property
    def takes_s(self) -> float:
        """From the decision to start to the first request."""
        return self.constant_s + self.model_bytes / self.bytes_per_s

    def problems(self, count: int, role: str) -> Iterator[tuple[str, str]]:
        """What is wrong with it in a group of so many engines: fields and messages."""
        if not 0 <= self.model_bytes < math.inf:
            yield "model_bytes", f"must be bytes, got {self.model_bytes:g}"
        if not self.bytes_per_s > 0:
            yield "bytes_per_s", f"must be more than 0, got {self.bytes_per_s:g}"
        if not 0 <= self.constant_s < math.inf:
            yield "constant_s", f"must be seconds, got {self.constant_s:g}"
        if self.running is not None and not 0 <= self.running <= count:
            yield "running", f"must be 0 to {count}, the engines of the group, got {self.running}"
        if not self.stop_idle_s > 0:
            yield "stop_idle_s", f"must be more than 0 seconds, got {self.stop_idle_s:g}"
        if role != "both":
            yield "", f"is for engines that prefill and decode; those that only {role} run all the time"


def keeps_requests(flow: FlowSettings | None) -> bool:
    """Whether requests wait for a pool without endpoints, by which engines know that they are wanted."""
    return flow is not None and flow.is_on and flow.no_endpoint_ttl_s > 0
