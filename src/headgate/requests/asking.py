"""Sends a request to a picked endpoint: the attempt, its booking and its timer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.requests import charging, effects, states
from headgate.requests.life import Attempt

if TYPE_CHECKING:
    from headgate.requests.bodies.pieces import Pieces
    from headgate.requests.life import Life
    from headgate.requests.pool_state import PoolState
    from headgate.scheduling import Choice


def begin(life: Life, choice: Choice, now: float) -> Attempt:
    """Begin an attempt. Its endpoint is not tried again."""
    life.account.attempts += 1
    life.tried.append(choice.load)
    life.load = choice.load
    attempt = life.attempt = Attempt(choice, now)
    return attempt


def count_work(life: Life, pool: PoolState, cached_tokens: int) -> None:
    """Count the work of a request in the traffic of its pool; that of one that was queued there is
    counted."""
    if life.attempts_here == 1 and (life.wait is None or not life.wait.is_in(pool.queue)):
        scheduled = life.decision.scheduled
        uncached_tokens = scheduled.prompt_tokens - cached_tokens
        if uncached_tokens < 0:
            uncached_tokens, cached_tokens = 0, scheduled.prompt_tokens
        output_tokens = scheduled.output_tokens or charging.output_tokens(scheduled, life.plane)
        pool.traffic.asks(uncached_tokens, output_tokens, cached_tokens)


def book(life: Life, attempt: Attempt) -> None:
    """Book the whole request on the endpoint."""
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
    """Send the request to the endpoint, with the pool's timeout for the response head."""
    life.state = states.REACHING
    if pool.pool.timeout_s is not None:
        attempt.has_timer = True
        life.todo.append(effects.StartTimer(pool.pool.timeout_s))
    life.todo.append(effects.Ask(pool, attempt.load, body))
