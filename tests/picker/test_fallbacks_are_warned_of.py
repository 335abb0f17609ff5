"""A picker cannot send requests elsewhere: it tells in its log that annotations about that have no effect."""

import logging

from picker_world import pool

from headgate.api import marks

TOLD = "InferencePool/default/pool: headgate.dev/fallback has no effect here: a picker sends requests nowhere"


async def test_a_pool_with_fallbacks(picker, caplog):
    """Once, however often the pool changes."""
    caplog.set_level(logging.WARNING)
    world = await picker()
    for pods in (1, 2, 3):
        world.apply(pool(fallback="provider=cloud"), pods=pods)
    told = [record.getMessage() for record in caplog.records if marks.FALLBACK in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith(TOLD)
