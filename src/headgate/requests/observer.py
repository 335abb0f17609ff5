"""Who is told what happens to requests, and who asks engines: what a request's life needs of either."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headgate.fleet import EndpointState
    from headgate.requests.bodies.pieces import Pieces
    from headgate.requests.pool_state import PoolState
    from headgate.scheduling import Choice, Request


class Observer(Protocol):
    """Is told, for metrics; changes nothing."""

    def attempt_failed(self, pool: PoolState, reason: str) -> None: ...
    def retry(self, pool: PoolState, granted: bool) -> None: ...
    def ejected(self, pool: PoolState, load: EndpointState, reason: str, *, is_out: bool) -> None:
        """An endpoint has failed too often. Where its pool has no better, it is still asked, and not out."""

    def rests(self, pool: PoolState, load: EndpointState, seconds: float) -> None:
        """An endpoint asked for no requests for so long."""

    def connected(self, pool: PoolState, took_s: float) -> None: ...
    def paired(self, pool: PoolState, decision: str) -> None: ...
    def prefilled(self, pool: PoolState, took_s: float) -> None: ...
    def cached(self, pool: PoolState, prompt: int, believed: int, reported: int) -> None:
        """Tokens of one prompt, and those of them that were cached."""


class Watch(Protocol):
    """Whoever asks questions of the gateway's own of one endpoint."""

    @property
    def heard_at(self) -> float:
        """When the endpoint last answered one."""
        ...

    def is_unanswered(self, now: float) -> bool:
        """Whether the endpoint, which used to answer, leaves an open question unanswered."""
        ...

    def list_models_soon(self) -> None:
        """Asks for its models, unless that was just done."""


class Engines(Protocol):
    """What asks engines, beside the requests."""

    def watch(self, load: EndpointState) -> Watch | None:
        """Whoever asks an endpoint; None if nobody does."""
        ...

    def list_models_soon(self, load: EndpointState) -> None: ...

    @property
    def tell_of_caches(self) -> bool:
        """Whether any engine tells what its cache stores."""
        ...

    def sent(self, scheduled: Request, body: bytes | Pieces, choice: Choice, now: float) -> None:
        """A prompt goes to an endpoint whose cache will tell of it."""


class Unobserved:
    """An observer that keeps nothing, and engines that nobody asks."""

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
