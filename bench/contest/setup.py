"""What a gateway may know about a fleet before the first request, and what it may not."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from headgate.fleet import EndpointState
from headgate.scheduling import Request


class Setup(NamedTuple):
    """Values that an operator configures for a router, or that engines report."""

    replicas: int
    cache_blocks: int
    """Of each engine, as engines report it."""
    prefill_tokens_per_s: float
    """Measured on an engine at full speed, for routers with a single value for all engines."""


class Truth(Protocol):
    """Exact state of engines that no gateway knows: for oracles only."""

    def queue_s(self, request: Request, load: EndpointState, now: float) -> float:
        """Seconds until the engine would start the request."""
        ...

    def waiting(self, load: EndpointState) -> int:
        """Requests without a first token."""
        ...

    def prefill_tokens_per_s(self, load: EndpointState) -> float:
        """Its prefill speed."""
        ...
