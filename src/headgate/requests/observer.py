"""Interfaces that a request's life needs: an observer for metrics, and queries to engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headgate.fleet import EndpointState
    from headgate.requests.bodies.pieces import Pieces
    from headgate.requests.pool_state import PoolState
    from headgate.scheduling import Choice, Request


class Observer(Protocol):
    """Receives events for metrics; has no influence on requests."""

    def attempt_failed(self, pool: PoolState, reason: str) -> None: ...
    def retry(self, pool: PoolState, granted: bool) -> None: ...
    def ejected(self, pool: PoolState, load: EndpointState, reason: str, *, is_out: bool) -> None:
        """An endpoint failed too often. `is_out` is false if it is still used because its pool has no better
        one."""

    def rests(self, pool: PoolState, load: EndpointState, seconds: float) -> None:
        """An endpoint asked for no requests for this long."""

    def connected(self, pool: PoolState, took_s: float) -> None: ...
    def paired(self, pool: PoolState, decision: str) -> None: ...
    def prefilled(self, pool: PoolState, took_s: float) -> None: ...
    def cached(self, pool: PoolState, prompt: int, believed: int, reported: int) -> None:
        """Tokens of one prompt, and how many of them were expected and reported to be cached."""


class Watch(Protocol):
    """Sends the gateway's own queries to one endpoint."""

    @property
    def heard_at(self) -> float:
        """When the endpoint last responded to a query."""
        ...

    def is_unanswered(self, now: float) -> bool:
        """Whether an endpoint that used to respond has left a query without a response."""
        ...

    def list_models_soon(self) -> None:
        """List its models, unless that was done recently."""


class Engines(Protocol):
    """Queries to engines, besides requests."""

    def watch(self, load: EndpointState) -> Watch | None:
        """The watch of an endpoint; None if there is none."""
        ...

    def list_models_soon(self, load: EndpointState) -> None: ...

    @property
    def tell_of_caches(self) -> bool:
        """Whether any engine reports what its cache stores."""
        ...

    def sent(self, scheduled: Request, body: bytes | Pieces, choice: Choice, now: float) -> None:
        """A prompt is sent to an endpoint that may report its cache."""


class Unobserved:
    """An observer that records nothing, and engines without queries."""

    tell_of_caches = False

    def attempt_failed(self, pool: PoolState, reason: str) -> None: ...
    def retry(self, pool: PoolState, granted: bool) -> None: ...
    def ejected(self, pool: PoolState, load: EndpointState, reason: str, *, is_out: bool) -> None: ...
    def rests(self, pool: PoolState, load: EndpointState, seconds: float) -> None: ...
    def connected(self, pool: PoolState, took_s: float) -> None: ...
    def paired(self, pool: PoolState, decision: str) -> None: ...
    def prefilled(self, pool: PoolState, took_s: float) -> None: ...
    def cached(self, pool: PoolState, prompt: int, believed: int, reported: int) -> None: ...
    def watch(self, load: EndpointState) -> Watch | None:
        return None

    def list_models_soon(self, load: EndpointState) -> None: ...
    def sent(self, scheduled: Request, body: bytes | Pieces, choice: Choice, now: float) -> None: ...
