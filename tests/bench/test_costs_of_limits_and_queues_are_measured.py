"""What the benches of limits and queues measure is what the data path does."""

import asyncio

import pytest

import limits
import pieces
import release


async def test_what_a_request_costs_that_nothing_stops(capsys):
    """Each row does its work, and the sum is what a limit and a queue add."""
    proxy = limits.gateway()
    for written in limits.LIMITS.values():
        limits.limited(written)()
    for has_queue in (False, True):
        limits.queued(proxy, has_queue=has_queue)()
    await proxy.close()
    costs = dict.fromkeys(limits.LIMITS, 1.0) | {limits.BOTH: 3.0, limits.NO_QUEUE: 0.5, limits.QUEUE: 1.25}
    costs[pieces.LOOP] = 2.0
    limits.told(costs)
    total = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(limits.TOTAL))
    assert total.split()[-2:] == ["2.75", "1.38"]


@pytest.mark.parametrize(
    "step", [release.queue_alone, release.with_what_is_counted, release.with_all_that_sends]
)
async def test_all_that_wait_are_released(step, monkeypatch):
    """Each goes once, which the bench itself looks at, and the time of all turns is counted."""
    monkeypatch.setattr(release, "REQUESTS", 200)
    measured = await step()
    assert 0.0 < measured.longest_s <= measured.total_s
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
