"""Who follows one kind of objects is not behind who follows another, once the API server answers."""

import asyncio
import time

from headgate.cluster.errors import ApiError, Unreachable
from headgate.cluster.outage import Outage

HOUR_S = 3600.0


async def paused(outage: Outage, error: ApiError) -> asyncio.Task[None]:
    pausing = asyncio.create_task(outage.pause(HOUR_S, error))
    await asyncio.sleep(0.01)
    assert not pausing.done()
    return pausing


async def test_a_response_ends_the_pauses_of_all_others():
    """Also those of a second outage."""
    outage = Outage("https://server", "")
    error = Unreachable("refused")
    for _ in range(2):
        began = time.monotonic()
        outage.failed(error, began, began)
        assert outage.is_on
        pausing = await paused(outage, error)
        outage.responded(time.monotonic())
        async with asyncio.timeout(60):
            await pausing
        assert began <= outage.ended_at <= time.monotonic()
        assert not outage.is_on


async def test_a_server_that_rejects_one_kind_is_not_asked_more_often_for_it():
    outage = Outage("https://server", "")
    outage.failed(Unreachable("refused"), 1.0, 1.0)
    pausing = await paused(outage, ApiError("overloaded", status_code=503))
    outage.responded(2.0)
    await asyncio.sleep(0.01)
    assert not pausing.done()
    pausing.cancel()
