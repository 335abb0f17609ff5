"""After a pass of the event loop that took long, requests begin one at a time."""

from __future__ import annotations

import asyncio

from headgate.apiserver.turns import AT_ONCE, SHORT_PASS_S, Turns


async def begun_in_passes(cost_s: float) -> list[int]:
    """How many of twelve requests of twelve users begin in each pass, if each takes so much CPU time."""
    spent = [0.0]
    turns = Turns(100, clock=lambda: spent[0])
    passes: list[int] = [0]

    async def request(user: str) -> None:
        await turns.begin(user)
        spent[0] += cost_s
        passes[-1] += 1

    async with asyncio.TaskGroup() as group:
        for number in range(12):
            group.create_task(request(f"user{number}"))
        while sum(passes) < 12:
            await asyncio.sleep(0)
            passes.append(0)
    return [count for count in passes if count]


async def test_light_requests_begin_a_few_at_a_time() -> None:
    """Four in each pass: what they write shares a transaction."""
    assert max(await begun_in_passes(SHORT_PASS_S / 10)) == AT_ONCE


async def test_heavy_requests_begin_one_at_a_time() -> None:
    """Nobody knows beforehand what a request takes; after the first few it is known."""
    assert await begun_in_passes(SHORT_PASS_S * 2) == [AT_ONCE, *[1] * 8]
