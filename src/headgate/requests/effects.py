"""What a request wants of its shell. Effects are performed in their order, each once.

The last effect of each request is one of those that say so: after it, the shell reports nothing more, and
lets go of whatever it holds for the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headgate.fleet import EndpointState
    from headgate.flow.limits import RouteLimit
    from headgate.requests.bodies.pieces import Pieces
    from headgate.requests.client import Header
    from headgate.requests.pool_state import PoolState
    from headgate.requests.prefill import PrefillAttempt
    from headgate.requests.refusal import Refusal


class Effect:
    __slots__ = ()

    def __repr__(self) -> str:
        return type(self).__name__


class ReadBody(Effect):
    """Read what a decision needs of a large body, beside other work; report `body_read`."""

    __slots__ = ()


class FetchTokens(Effect):
    """Claim tokens where they are counted; report `tokens_fetched` when they are here or will not be in time,
    and `tokens_out` if there is nothing to wait for."""

    __slots__ = ("input_tokens", "limit", "output_tokens")

    def __init__(self, limit: RouteLimit, input_tokens: int, output_tokens: int) -> None:
        self.limit = limit
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens


class Hold(Effect):
    """Put the request into the queue of its pool, which reports `admitted` or `turned_away`."""

    __slots__ = ()


class Ask(Effect):
    """Send the request to an endpoint; report `sent`, or why that was not possible."""

    __slots__ = ("body", "is_afresh", "load", "pool")

    def __init__(
        self, pool: PoolState, load: EndpointState, body: bytes | Pieces, *, is_afresh: bool = False
    ) -> None:
        self.pool = pool
        self.load = load
        self.body = body
        self.is_afresh = is_afresh
        """Whether the connection has to be a new one."""


class StartTimer(Effect):
    """Report `timer` after so many seconds, unless it is stopped before. There is one timer at most."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class StopTimer(Effect):
    __slots__ = ()


class Drop(Effect):
    """Stop asking the endpoint: it must not work on for nobody. Stops the timer as well."""

    __slots__ = ()


class Overtake(Effect):
    """Go on connecting to the endpoint, for what that tells of it; the request will not need it."""

    __slots__ = ()


class Prefill(Effect):
    """Send the prompt to the endpoint of `attempt`; report `prefill_sent`, then what comes of it."""

    __slots__ = ("attempt", "body", "needs_answer", "pool")

    def __init__(
        self, pool: PoolState, attempt: PrefillAttempt, body: bytes | Pieces, *, needs_answer: bool
    ) -> None:
        self.pool = pool
        self.attempt = attempt
        self.body = body
        self.needs_answer = needs_answer
        """Whether an answer that cannot be read is a failure."""


class DropPrefill(Effect):
    """Stop the prefill that is under way."""

    __slots__ = ()


class LeavePrefill(Effect):
    """Let the prefill end by itself, within a bounded time; nothing more is to be reported of it."""

    __slots__ = ()


class Answer(Effect):
    """Give the client the answer whose head was just reported, and what follows as it comes."""

    __slots__ = ("retry_after_s",)

    def __init__(self, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        """What its Retry-After has to say instead of what the endpoint said."""


class TakeBack(Effect):
    """Forget the answer: nothing of it has reached the client."""

    __slots__ = ()


class Finish(Effect):
    """The client has the whole answer. The last effect."""

    __slots__ = ()


class Refuse(Effect):
    """Tell the client why its request is not served. The last effect."""

    __slots__ = ("refusal",)

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


class CutOff(Effect):
    """End an answer of which the client has a part, and say why where its form allows. The last effect."""

    __slots__ = ("refusal",)

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


class PassWhole(Effect):
    """Give the client this answer, complete as it is. The last effect."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: list[Header], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


class HangUp(Effect):
    """Let go of a client that has left, or that reads nothing. The last effect."""

    __slots__ = ()


READ_BODY: Final = ReadBody()
HOLD: Final = Hold()
STOP_TIMER: Final = StopTimer()
DROP: Final = Drop()
OVERTAKE: Final = Overtake()
DROP_PREFILL: Final = DropPrefill()
LEAVE_PREFILL: Final = LeavePrefill()
TAKE_BACK: Final = TakeBack()
FINISH: Final = Finish()
HANG_UP: Final = HangUp()
ANSWER: Final = Answer()
