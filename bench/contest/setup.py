"""What a gateway may know of a fleet before the first request, and what it may not."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from headgate.fleet import EndpointState
from headgate.scheduling import Request


class Setup(NamedTuple):
    """What an operator sets for a router, or its engines tell."""

    replicas: int
    cache_blocks: int
    """Of each engine, as engines tell."""
    prefill_tokens_per_s: float
    """Measured on an engine of full speed, for routers that have one number for all: nobody tells them that
    some are slower."""


class Truth(Protocol):
    """What engines know and no gateway does: for oracles only."""

    def queue_s(self, request: Request, load: EndpointState, now: float) -> float:
        """Seconds until the engine would take up the request."""
        ...

    def waiting(self, load: EndpointState) -> int:
        """Requests without a first token."""
        ...

    def prefill_tokens_per_s(self, load: EndpointState) -> float:
        """How fast it is."""
        ...
