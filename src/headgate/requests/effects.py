"""Actions that a request asks of its shell. The shell performs effects in order, each once.

Each request ends with one of the effects marked as last. After it, the shell reports nothing more and
releases all resources of the request.
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
    """Read from a large body what the decision needs, without blocking others; report `body_read`."""

    __slots__ = ()


class FallBack(Effect):
    """The request goes to its next model or pool: report `decided`."""

    __slots__ = ()


class FetchTokens(Effect):
    """Lease tokens of a limit that is counted elsewhere; report `tokens_fetched` when they arrive or the time
    is up, and `tokens_out` if there is nothing to wait for."""

    __slots__ = ("input_tokens", "limit", "output_tokens")

    def __init__(self, limit: RouteLimit, input_tokens: int, output_tokens: int) -> None:
        self.limit = limit
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens


class Hold(Effect):
    """Put the request into its pool's queue, which reports `admitted` or `turned_away`."""

    __slots__ = ()


class Ask(Effect):
    """Send the request to an endpoint; report `sent`, or the failure."""

    __slots__ = ("body", "is_afresh", "load", "pool")

    def __init__(
        self, pool: PoolState, load: EndpointState, body: bytes | Pieces, *, is_afresh: bool = False
    ) -> None:
        self.pool = pool
        self.load = load
        self.body = body
        self.is_afresh = is_afresh
        """Whether the connection must be new."""


class StartTimer(Effect):
    """Report `timer` after these seconds, unless stopped before. A request has at most one timer."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class StopTimer(Effect):
    __slots__ = ()


class Drop(Effect):
    """Drop the upstream connection, so that the endpoint stops work. Stops the timer as well."""

    __slots__ = ()


class Overtake(Effect):
    """Keep connecting to the endpoint only to learn its health; the request goes elsewhere."""

    __slots__ = ()


class Prefill(Effect):
    """Send the prompt to the endpoint of `attempt`; report `prefill_sent`, then the result."""

    __slots__ = ("attempt", "body", "needs_response", "pool")

    def __init__(
        self, pool: PoolState, attempt: PrefillAttempt, body: bytes | Pieces, *, needs_response: bool
    ) -> None:
        self.pool = pool
        self.attempt = attempt
        self.body = body
        self.needs_response = needs_response
        """Whether an unreadable response is a failure."""


class DropPrefill(Effect):
    """Stop the running prefill."""

    __slots__ = ()


class LeavePrefill(Effect):
    """Let the prefill end by itself, within a time limit, and report nothing more of it."""

    __slots__ = ()


class Respond(Effect):
    """Forward the response whose head was just reported, as it arrives."""

    __slots__ = ("retry_after_s",)

    def __init__(self, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        """Replaces the value of the endpoint's Retry-After."""


class TakeBack(Effect):
    """Discard the response, none of which was sent to the client."""

    __slots__ = ()


class Finish(Effect):
    """The response is complete. Last effect."""

    __slots__ = ()


class Refuse(Effect):
    """Reject the request. Last effect."""

    __slots__ = ("refusal",)

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


class CutOff(Effect):
    """End a response that was sent in part, with the reason if its format allows that. Last effect."""

    __slots__ = ("refusal",)

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


class PassWhole(Effect):
    """Send this complete response to the client. Last effect."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: list[Header], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


class HangUp(Effect):
    """Close the connection of a client that has left, or that reads nothing. Last effect."""

    __slots__ = ()


READ_BODY: Final = ReadBody()
FALL_BACK: Final = FallBack()
HOLD: Final = Hold()
STOP_TIMER: Final = StopTimer()
DROP: Final = Drop()
OVERTAKE: Final = Overtake()
DROP_PREFILL: Final = DropPrefill()
LEAVE_PREFILL: Final = LeavePrefill()
TAKE_BACK: Final = TakeBack()
FINISH: Final = Finish()
HANG_UP: Final = HangUp()
RESPOND: Final = Respond()
