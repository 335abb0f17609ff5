"""For those who want to look on while a fleet runs, or know more than a gateway could."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headgate.fleet import EndpointState
from headgate.simulator.model import KvEvent
from headgate.simulator.traces import TimedRequest

if TYPE_CHECKING:
    from headgate.simulator.fleet.endpoint import SimulatedEndpoint


class Observer:
    """Is told what happens as it happens; all of these do nothing unless they are overridden."""

    wants_kv_events = False
    """Whether engines tell what their caches store and remove; it takes time."""

    def begins(self, endpoints: Sequence[SimulatedEndpoint]) -> None:
        """Before the first request. Their engines may be looked at, after `settle`; not changed."""

    def sent(self, request: TimedRequest, load: EndpointState, now: float) -> None:
        """A request is on its way to an endpoint."""

    def generated(self, request: TimedRequest, load: EndpointState, now: float) -> None:
        """An engine has made the first token of a request, whether or not the gateway sees it yet."""

    def first_token(self, request: TimedRequest, load: EndpointState, now: float) -> None:
        """The first token of a request is here; if it is not streamed, together with the last."""

    def ended(self, request: TimedRequest, load: EndpointState, now: float) -> None:
        """An endpoint is done with a request, or has failed it."""

    def read(self, endpoint: SimulatedEndpoint, now: float) -> None:
        """The gateway has asked an endpoint for its metrics; `endpoint.load.reading` is what it knows now."""

    def kv_events(self, events: Sequence[KvEvent], load: EndpointState, now: float) -> None:
        """What an engine's cache stored and removed in its last steps."""
