"""The rule by which users share: as much as is still free, and a quarter for the administrator."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from headgate.apiserver.shares import Room, Shares
from headgate.apiserver.users import ADMIN


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", ADMIN]), st.booleans()), max_size=200))
def test_a_newcomer_always_gets_something(steps: list[tuple[str, bool]]) -> None:
    """Whatever three users and the administrator take and give back, another user and he find something."""
    shares = Shares(100)
    for user, takes in steps:
        if takes:
            shares.take(user)
        elif shares.held(user):
            shares.give_back(user)
        shares.validate()
    if shares.held(ADMIN) <= 25:
        assert shares.take(ADMIN)
        assert shares.take("newcomer")


def test_one_user_gets_half_and_the_administrator_the_rest() -> None:
    """Of 100, 25 are reserved: alone a user gets 38, the administrator all that is left."""
    shares = Shares(100)
    while shares.take("a"):
        pass
    while shares.take(ADMIN):
        pass
    assert shares.by_user() == {"a": 38, ADMIN: 62}


async def test_those_who_wait_are_served_in_turn() -> None:
    """Room that becomes free goes to users alternately; who gave up waiting leaves nothing behind."""
    shares, order = Shares(1), []
    first = Room(shares, "a")
    assert first.grow(1)

    async def work(user: str) -> None:
        await shares.wait(user, 1)
        order.append(user)
        shares.give_back(user)

    waiting = [asyncio.ensure_future(work(user)) for user in ("a", "a", "a", "b")]
    await asyncio.sleep(0)
    waiting[0].cancel()
    first.close()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert order == ["a", "b", "a"] or order == ["b", "a", "a"]
    shares.validate()
    assert shares.statistics() == {"total": 1, "held": 0, "waiting": 0}
