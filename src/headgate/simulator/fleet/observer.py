"""Hooks to observe a running fleet, including details that a gateway cannot see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headgate.fleet import EndpointState
from headgate.simulator.model import KvEvent
from headgate.traffic.traces import TimedRequest

if TYPE_CHECKING:
    from headgate.simulator.fleet.endpoint import SimulatedEndpoint


class Observer:
    """Called as events happen; all methods do nothing unless overridden."""

    wants_kv_events = False
    """Whether engines report stored and removed cache blocks, which takes time."""

    def begins(self, endpoints: Sequence[SimulatedEndpoint]) -> None:
        """Before the first request. The engines may be read, after `settle`, but not changed."""

    def sent(self, request: TimedRequest, load: EndpointState, now: float) -> None:
        """A request was sent to an endpoint."""

    def generated(self, request: TimedRequest, load: EndpointState, now: float) -> None:
        """An engine generated the first token of a request, whether or not the gateway sees it yet."""

    def first_token(self, request: TimedRequest, load: EndpointState, now: float) -> None:
        """The first token of a request arrived; without streaming, together with the last."""

    def ended(self, request: TimedRequest, load: EndpointState, now: float) -> None:
        """An endpoint finished a request, or failed it."""

    def read(self, endpoint: SimulatedEndpoint, now: float) -> None:
        """The gateway read an endpoint's metrics; `endpoint.load.reading` is the result."""

    def kv_events(self, events: Sequence[KvEvent], load: EndpointState, now: float) -> None:
        """Blocks that an engine's cache stored and removed in its last steps."""
