"""How an endpoint that was picked is asked: booked, timed, and sent the request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.requests import effects, states
from headgate.requests.life import Attempt

if TYPE_CHECKING:
    from headgate.requests.bodies.pieces import Pieces
    from headgate.requests.life import Life
    from headgate.requests.pool_state import PoolState
    from headgate.scheduling import Choice


def begin(life: Life, choice: Choice, now: float) -> Attempt:
    """Begins an attempt: its endpoint is not asked again."""
    life.account.attempts += 1
    life.tried.append(choice.load)
    life.load = choice.load
    attempt = life.attempt = Attempt(choice, now)
    return attempt


def book(life: Life, attempt: Attempt) -> None:
    """Books the whole request on the endpoint."""
    scheduled = life.decision.scheduled
    uncached_tokens = scheduled.prompt_tokens - attempt.choice.cached_tokens
    attempt.booking = attempt.load.book(
        uncached_tokens if uncached_tokens > 0 else 0,
        scheduled.output_tokens,
        attempt.began_at,
        life.decision.stream,
        scheduled.adapter,
    )


def ask(life: Life, pool: PoolState, attempt: Attempt, body: bytes | Pieces) -> None:
    """The request goes to the endpoint, which has the pool's time for the head of an answer."""
    life.state = states.REACHING
    if pool.pool.timeout_s is not None:
        attempt.has_timer = True
        life.todo.append(effects.StartTimer(pool.pool.timeout_s))
    life.todo.append(effects.Ask(pool, attempt.load, body))
