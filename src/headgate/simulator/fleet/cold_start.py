"""Cold starts: how long an engine takes to start, and when engines of a group run."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from headgate.flow.queue import FlowSettings


class ColdStart(msgspec.Struct, frozen=True, kw_only=True):
    """Cold start settings of a group. Validated as part of a `FleetDescription`.

    While requests are queued in the gateway, the group starts one engine after the other. This is a rule of
    the simulation, not of an autoscaler: it shows the cost of loading a model.
    """

    model_bytes: float = 0.0
    """Bytes that an engine loads before it serves."""
    bytes_per_s: float = 2e9
    """Bandwidth of the storage that the model is loaded from; 2 GB/s is a good local disk."""
    constant_s: float = 0.0
    """Everything else: node, image, process, CUDA graphs."""
    running: int | None = None
    """Engines that run from the beginning, the first ones of the group; None for all."""
    stop_idle_s: float = math.inf
    """Stop an engine after this long without requests; its cache is lost. Infinite for never."""

    @property
    def takes_s(self) -> float:
        """From the decision to start until the first request can be served."""
        return self.constant_s + self.model_bytes / self.bytes_per_s

    def problems(self, count: int, role: str) -> Iterator[tuple[str, str]]:
        """Invalid fields in a group of `count` engines, with messages."""
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
    """Whether requests queue for a pool without endpoints, which is the signal to start engines."""
    return flow is not None and flow.is_on and flow.no_endpoint_ttl_s > 0
