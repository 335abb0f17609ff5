"""The state of one request, from its complete body to its settlement.

Events are the functions of `way`: they change a `Life` and add effects for its shell to `todo`. A Life has no
connection, timer or clock, so any shell can own it.
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
    from headgate.requests.fallen import Fallen
    from headgate.requests.pairing import Pairing
    from headgate.requests.pool_state import PoolState
    from headgate.requests.proxied import Proxied
    from headgate.requests.received import Received
    from headgate.requests.traffic import PoolTraffic
    from headgate.requests.wait import Wait
    from headgate.scheduling import Choice


UNDECIDED: Final = Decision()
"""For requests not decided yet; never changed."""


class Attempt:
    """One try to get a response from one endpoint."""

    __slots__ = ("began_at", "booking", "choice", "has_timer", "load", "prefix_used_at")

    def __init__(self, choice: Choice, began_at: float) -> None:
        self.choice = choice
        self.load: EndpointState = choice.load
        self.began_at = began_at
        self.booking: Booking | None = None
        """The request's booking on the endpoint; None when it has ended."""
        self.has_timer = False
        """Whether a timer for the response head is running."""
        self.prefix_used_at: float | None = None
        """When the endpoint last used the end of the prefix that it is expected to have cached."""


class Life:
    """`todo` has the effects to perform, in order."""

    __slots__ = (
        "account",
        "attempt",
        "decision",
        "fallen",
        "load",
        "may_repeat",
        "pairing",
        "plane",
        "pool",
        "proxied",
        "received",
        "request",
        "reservation",
        "state",
        "suspects",
        "todo",
        "traffic",
        "tried",
        "wait",
    )

    def __init__(
        self, plane: DataPlane, request: ClientRequest, received: Received, decision: Decision | None = None
    ) -> None:
        """`decision` is passed by shells that decide themselves."""
        self.plane = plane
        self.request = request
        self.received = received
        self.decision = decision or UNDECIDED
        self.pool: PoolState | None = self.decision.pool
        self.state = states.NEW
        self.todo: list[Effect] = []
        self.account = Account(request.arrived_at, len(request.body))
        self.reservation: Reservation | None = None
        """Tokens reserved of its route's limit, if it has one."""
        self.wait: Wait | None = None
        """Its time in the pool's queue; None if it was never queued, which is common."""
        self.attempt: Attempt | None = None
        """The last attempt; None before the first."""
        self.load: EndpointState | None = None
        """The endpoint that responds or is expected to; None if there is none now."""
        self.traffic: PoolTraffic | None = None
        """Where it counts as in flight; None before it is admitted by its route's limit."""
        self.tried: list[EndpointState] = []
        """Endpoints that are not tried again."""
        self.suspects: Suspects | None = None
        """Endpoints that rejected it, until it is known whose fault that was."""
        self.proxied: Proxied | None = None
        """What another proxy says, which only asks for a pick; None if the shell sends the request itself."""
        self.pairing: Pairing | None = None
        """For a request to a pool with separate prefill and decode."""
        self.may_repeat = True
        """Whether all of the body that was sent is still there, so that it can be sent again."""
        self.fallen: Fallen | None = None
        """How it came to another model or pool than that of its route; None if it did not."""

    @property
    def choice(self) -> Choice | None:
        """Of the last attempt."""
        return self.attempt.choice if self.attempt is not None else None

    @property
    def attempts_here(self) -> int:
        """Attempts in its present pool."""
        attempts = self.account.attempts
        return attempts if self.fallen is None else attempts - self.fallen.attempts

    @property
    def is_over(self) -> bool:
        return self.state == states.OVER

    @property
    def phase(self) -> str:
        """What it waits for, in one to three words."""
        return states.NAMES[self.state]

    @property
    def can_be_evicted(self) -> bool:
        """Whether it can still be removed from its endpoint and refused cleanly."""
        return bool(self.state & states.TRYING) and self.load is not None

    def expect(self, event: str) -> None:
        """Raise NotAllowedError if the event is not allowed now, which is a bug of the shell."""
        if not states.ALLOWED[event] & self.state:
            raise states.NotAllowedError(f"{event} of a request that is {self.phase}: {self.story()}")

    def validate(self) -> None:
        """Raise AssertionError if the state is inconsistent."""
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
            "failed": [(each.endpoint, each.reason) for each in account.failed_attempts or ()],
            "prefill": self.pairing.decision if self.pairing is not None else None,
            "status": account.status,
            "outcome": account.outcome,
            "todo": [repr(effect) for effect in self.todo],
        }


def tried_by(life: Life, now: float) -> list[tuple[str, str, int]]:
    """All attempts of a request that is over: endpoint name, what happened, milliseconds."""
    tried = [(each.endpoint, each.reason, each.ms) for each in life.account.failed_attempts or ()]
    attempt = life.attempt
    if attempt is not None and life.load is not None:
        took_ms = int((now - attempt.began_at) * 1e3 + 0.5)
        tried.append((attempt.load.endpoint.name, life.account.outcome, took_ms))
    return tried
