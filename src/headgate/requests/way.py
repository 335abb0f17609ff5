"""The events of a request in their usual order, as reported by its shell, and what follows from each.

Each function handles one event at the time `now`: it changes the `Life`, and adds effects for the shell to
`life.todo` (see `effects`). `states.ALLOWED` lists the states that allow an event; in others it raises
NotAllowedError. Those of a prefill by another endpoint, and of long uploads: `prefill_way`, `upload_way`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.requests import attempts, effects, fallen, responses, settlement, silence, states
from headgate.requests.bodies import large
from headgate.requests.deciding.decide import decide, encoded
from headgate.requests.limits import limiting
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.requests.life import Life
    from headgate.requests.pool_state import PoolState


# 1. Decide where the request goes.
def begin(life: Life, now: float) -> None:
    """The body is complete."""
    life.expect("begin")
    plane, request = life.plane, life.request
    if len(request.body) <= large.LARGE_BYTES:
        life.decision = decide(plane, request, proxied=life.proxied)
        decided(life, now)
        return
    refusal = plane.paths.refusal(request.path) or encoded(request)
    if refusal is not None:
        settlement.refuse(life, refusal, now)
    else:
        life.state = states.READING
        life.todo.append(effects.READ_BODY)


def body_read(life: Life, body: large.Body | None, now: float) -> None:
    """A large body was read for the decision; `body` is None if that failed."""
    life.expect("body_read")
    life.state = states.NEW
    if body is None:
        settlement.refuse(life, Refusal.broken("the gateway failed to read the request: see its log"), now)
    else:
        life.decision = decide(life.plane, life.request, body, life.proxied)
        life.fallen = fallen.begun(life.decision, body)
        decided(life, now)


# 2. Reserve tokens of its route's limit.
def decided(life: Life, now: float) -> None:
    """The decision is made, here or by the shell, or again after another model or pool was left."""
    life.expect("decided")
    life.pool = life.decision.pool
    if life.decision.refusal is not None:
        settlement.refuse(life, life.decision.refusal, now)
    elif not limiting.is_limited(life) or limiting.reserve(life, now, may_wait=True):
        _enter(life, now)


def tokens_fetched(life: Life, now: float) -> None:
    """Tokens were leased. If other requests took them first, ask once more while there is time."""
    life.expect("tokens_fetched")
    may_wait = now - life.request.arrived_at < life.plane.rules.ask_tokens_again_s
    has_pool = attempts.finds_pool(life, "for tokens of its limit", now)
    if has_pool and limiting.reserve(life, now, may_wait=may_wait):
        _enter(life, now)


def tokens_out(life: Life, now: float) -> None:
    """There are no tokens, and none will come in time."""
    life.expect("tokens_out")
    if limiting.refuse(life, now):
        _enter(life, now)


# 3. Send it to its pool, or queue it there.
def _enter(life: Life, now: float) -> None:
    pool = life.pool
    assert pool is not None
    life.traffic, queue = pool.traffic.entered(now), pool.queue
    if queue is None or queue.passes(life.decision.scheduled.priority, now):
        attempts.first(life, pool, now)
    else:
        life.state = states.QUEUED
        life.todo.append(effects.HOLD)


def admitted(life: Life, pool: PoolState, now: float) -> None:
    """The request may leave the queue; `pool` is the pool as it is now."""
    life.expect("admitted")
    attempts.first(life, pool, now)


def turned_away(life: Life, refusal: Refusal, now: float) -> None:
    """The request was dropped from the queue, or evicted from its endpoint in favor of others."""
    life.expect("turned_away")
    settlement.refuse(life, refusal, now)


# 4. Send it to an endpoint; retry on another if that fails.
def sent(life: Life, now: float) -> None:
    """The endpoint has the request."""
    life.expect("sent")
    life.state = states.SENT
    life.account.sent_at = life.account.heard_at = now
    if life.pairing is not None:
        life.pairing.sent()


def connect_failed(life: Life, message: str, now: float) -> None:
    """The endpoint could not be reached; `message` says why, for the log."""
    life.expect("connect_failed")
    attempts.failed(life, "connect", message, now)


def connections_exhausted(life: Life, message: str, now: float) -> None:
    """The gateway itself cannot open another connection."""
    life.expect("connections_exhausted")
    settlement.refuse(life, Refusal.unavailable(message, code="gateway_exhausted"), now)


def connects_slowly(life: Life, now: float) -> None:
    """A new connection takes suspiciously long: try another endpoint, if a retry is allowed."""
    life.expect("connects_slowly")
    attempts.overtake(life, now)


def timer(life: Life, now: float, *, has_begun: bool = False) -> None:
    """The retry interval is over, or the timeout for the response head."""
    life.expect("timer")
    if life.state != states.RETRYING:
        silence.no_head_in_time(life, now, has_begun=has_begun)
    elif attempts.finds_pool(life, "to be retried", now):
        attempts.attempt(life, now)


# 5. Forward the response; of its body, only the first byte is reported here.
def head(life: Life, status: int, rest_s: float | None, now: float) -> None:
    """The response head arrived; `rest_s` is its Retry-After, if the status may have one."""
    life.expect("head")
    responses.head(life, status, rest_s, now)


def first_byte(life: Life, now: float) -> None:
    """The first byte of the response body arrived."""
    life.expect("first_byte")
    responses.first_byte(life, now)


def heard(life: Life, now: float) -> None:
    """Body data has arrived since the last call."""
    if life.load is not None:
        life.account.heard_at = life.load.heard_at = now


def sweep(life: Life, now: float, *, is_stalled: bool = False, has_begun: bool = False) -> None:
    """About a second has passed. `is_stalled`: the client reads nothing."""
    silence.judge(life, now, is_stalled=is_stalled, has_begun=has_begun)


def endpoint_lost(life: Life, message: str, now: float, *, is_crossed: bool, has_begun: bool) -> None:
    """The connection ended before the response did. `is_crossed`: the endpoint closed an idle connection just
    as it was reused, which is no failure, and did nothing, so the same endpoint is tried again."""
    life.expect("endpoint_lost")
    if life.state == states.ANSWERING:
        silence.break_off(life, "upstream_lost", message, now)
    elif is_crossed and life.may_repeat:
        attempts.ask_afresh(life)
    else:
        message = f"broke off before its response: {message}"
        attempts.failed(life, "reset", message, now, has_begun=has_begun)


def endpoint_broke(life: Life, message: str, now: float, *, is_head: bool) -> None:
    """The response, or its head, is not valid HTTP. Not retried, as the endpoint may have done the work."""
    life.expect("endpoint_broke")
    silence.invalid(life, message, now, is_head=is_head)


# 6. End it: `settlement` describes what that means.
def finished(life: Life, now: float) -> None:
    """The response is complete."""
    life.expect("finished")
    responses.finished(life, now)


def client_gone(life: Life, now: float) -> None:
    """The client has left."""
    life.expect("client_gone")
    silence.judge_impatience(life, now)
    settlement.hang_up(life, "client_gone", now)


def broke(life: Life, now: float) -> None:
    """The shell failed to perform an effect; called while it handles the exception."""
    life.expect("broke")
    attempts.broke(life, now)
