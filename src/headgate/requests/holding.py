"""Queues a request again whose pool has no endpoint left, if requests start the pool.

A pool may be scaled to zero, or its only engine may end, just when a request is sent to it; and an engine may
be ready a moment before it can be reached. The request then waits as if it had come a moment later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.requests import effects, settlement, states

if TYPE_CHECKING:
    from headgate.requests.life import Life
    from headgate.requests.pool_state import PoolState

MAX_HOLDS: Final = 60
"""An endpoint that cannot be reached is tried about once a second."""


def hold_again(life: Life, pool: PoolState, now: float) -> bool:
    """Queue the request, instead of refusing it, if the pool is to be started; returns whether it is queued.

    Its last attempt has ended.
    """
    if not life.may_repeat or pool.pool.start is None or pool.queue is None or not pool.queue.awaits_start:
        return False
    if life.wait is not None and life.wait.holds >= MAX_HOLDS:
        return False
    if life.state & states.TRYING:
        life.todo.append(effects.DROP)
    if life.pairing is not None:
        settlement.drop_prefill(life, now)
        life.pairing.tried.clear()
    life.pool = pool
    life.tried.clear()  # what starts anew may have the same address
    life.state = states.QUEUED
    life.todo.append(effects.HOLD)
    return True
