"""One request, from its complete body to its settlement: what is known of it, and what it waits for.

Events are the functions of `way`, which change a `Life` and leave in `todo` what its shell has to do. It
holds no connection, no timer and no clock, so that any shell can have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headgate.requests import states
from headgate.requests.account import Account
from headgate.requests.decision import Decision

if TYPE_CHECKING:
    from headgate.fleet import Booking, EndpointState, Suspects
    from headgate.flow.limits import Reservation
    from headgate.requests.client import ClientRequest
    from headgate.requests.data_plane import DataPlane
    from headgate.requests.effects import Effect
    from headgate.requests.pairing import Pairing
    from headgate.requests.pool_state import PoolState
    from headgate.requests.received import Received
    from headgate.requests.wait import Wait
    from headgate.scheduling import Choice


UNDECIDED: Final = Decision()
"""Of requests that were not decided yet; never changed."""


class Attempt:
    """One try to have the request answered by one endpoint."""

    __slots__ = ("began_at", "booking", "choice", "has_timer", "load", "prefix_used_at")

    def __init__(self, choice: Choice, began_at: float) -> None:
        self.choice = choice
        self.load: EndpointState = choice.load
        self.began_at = began_at
        self.booking: Booking | None = None
        """What the endpoint is counted to have of it, until it has it no more."""
        self.has_timer = False
        """Whether a timer runs until the head of an answer."""
        self.prefix_used_at: float | None = None
        """When the endpoint last used the end of what it is believed to hold of the prompt."""


class Life:
    """`todo` are the effects that were not performed yet, in their order."""

    __slots__ = (
        "account",
        "attempt",
        "decision",
        "load",
        "pairing",
        "plane",
        "pool",
        "received",
        "request",
        "reservation",
        "state",
        "suspects",
        "todo",
        "tried",
        "wait",
    )

    def __init__(
        self, plane: DataPlane, request: ClientRequest, received: Received, decision: Decision | None = None
    ) -> None:
        """`decision` is given by a shell whose requests come decided."""
        self.plane = plane
        self.request = request
        self.received = received
        self.decision = decision or UNDECIDED
        self.pool: PoolState | None = self.decision.pool
        self.state = states.NEW
        self.todo: list[Effect] = []
        self.account = Account(request.arrived_at, len(request.body))
        self.reservation: Reservation | None = None
        """What it holds of the token limit of its route, if that has one."""
        self.wait: Wait | None = None
        """Its time in the pool's queue; None for the many that may go at once."""
        self.attempt: Attempt | None = None
        """The last one; None before the first."""
        self.load: EndpointState | None = None
        """The endpoint that is to answer, or has; None where there is none now."""
        self.tried: list[EndpointState] = []
        """Endpoints that are not asked again."""
        self.suspects: Suspects | None = None
        """The endpoints that rejected it, as long as it is open whose fault that was."""
        self.pairing: Pairing | None = None
        """Of a request that comes to a pool where prefill and decode are apart."""

    @property
    def choice(self) -> Choice | None:
        """Of the last attempt."""
        return self.attempt.choice if self.attempt is not None else None

    @property
    def is_over(self) -> bool:
        return self.state == states.OVER

    @property
    def phase(self) -> str:
        """What it waits for, in a word or two."""
        return states.NAMES[self.state]

    @property
    def can_be_evicted(self) -> bool:
        """Whether it can still be taken back from its endpoint with a clean refusal."""
        return bool(self.state & states.TRYING) and self.load is not None

    def expect(self, event: str) -> None:
        """Raises NotAllowedError if the event cannot happen now: its shell is mistaken."""
        if not states.ALLOWED[event] & self.state:
            raise states.NotAllowedError(f"{event} of a request that is {self.phase}: {self.story()}")

    def validate(self) -> None:
        """Raises AssertionError if what is known contradicts itself."""
        attempt, account, state = self.attempt, self.account, self.state
        is_booked = attempt is not None and attempt.booking is not None
        assert bool(account.outcome) == (state == states.OVER), self.story()
        if state & (states.REACHING | states.SENT | states.PREFILLING | states.ANSWERING):
            assert is_booked, self.story()
            assert attempt is not None
            assert attempt.load is self.load, self.story()
            assert attempt.load in self.tried, self.story()
        else:
            assert not is_booked, self.story()
        assert bool(account.status) == bool(state & (states.ANSWERING | states.OVER)), self.story()
        assert account.attempts <= len(self.tried) + len(account.failed_attempts or ()), self.story()
        if state == states.OVER:
            assert self.suspects is None or not self.suspects.are_open, self.story()
            assert self.reservation is None or self.reservation.is_settled, self.story()
        if self.pairing is not None:
            self.pairing.validate(state)

    def story(self) -> dict[str, Any]:
        """What happened so far, for logs and tests."""
        account, decision, load = self.account, self.decision, self.load
        return {
            "state": self.phase,
            "model": decision.model,
            "pool": self.pool.name if self.pool is not None else None,
            "endpoint": load.endpoint.name if load is not None else None,
            "attempts": account.attempts,
            "failed": [(name, why) for name, why, _ in account.failed_attempts or ()],
            "prefill": self.pairing.decision if self.pairing is not None else None,
            "status": account.status,
            "outcome": account.outcome,
            "todo": [repr(effect) for effect in self.todo],
        }


def tried_by(life: Life, now: float) -> list[tuple[str, str, int]]:
    """All attempts of a request that is over: the endpoint's name, what happened, milliseconds."""
    tried = [*(life.account.failed_attempts or ())]
    attempt = life.attempt
    if attempt is not None and life.load is not None:
        took_ms = int((now - attempt.began_at) * 1e3 + 0.5)
        tried.append((attempt.load.endpoint.name, life.account.outcome, took_ms))
    return tried
