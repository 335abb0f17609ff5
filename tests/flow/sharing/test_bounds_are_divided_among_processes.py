"""Parts of a bound add up to it, whoever holds what; a part goes to where requests come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.flow.sharing import Backlog, PoolReport, Waits, first_part
from headgate.flow.sharing.dividing import parts, rooms
from headgate.flow.sharing.reports import NO_BOUND


def waits(held, came, most):
    return Waits(requests=held, bytes=10 * held, came=came, max_requests=most, max_bytes=10 * most)


@given(
    most=st.integers(1, 1000),
    rows=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), min_size=1, max_size=6),
)
def test_parts_add_up_to_the_bound(most, rows):
    """Each has what it holds, and all that is free is somebody's; what is held beyond the bound stays."""
    held = [each for each, _ in rows]
    told = parts([waits(*row, most) for row in rows])
    assert sum(part.requests for part in told) == max(most, sum(held))
    assert sum(part.bytes for part in told) == 10 * max(most, sum(held))
    assert all(part.requests >= has for part, has in zip(told, held, strict=True))


@given(most=st.integers(0, 1000), processes=st.integers(1, 9))
def test_at_first_parts_are_equal(most, processes):
    """To one, before anybody has told anything."""
    told = [first_part(most, processes, number) for number in range(processes)]
    assert sum(told) == most
    assert max(told) - min(told) <= 1
    assert first_part(NO_BOUND, processes, 0) == NO_BOUND


def test_a_bound_that_is_not_set_is_none_for_anybody():
    """And is no part of anything."""
    assert [part.requests for part in parts([Waits(), Waits(requests=5)])] == [NO_BOUND, NO_BOUND]


def test_what_is_free_goes_to_where_requests_come():
    """Half of it at once, and after a second nearly all, as what is held counts anew each time."""
    held = 0
    for _ in range(10):
        told = parts([waits(held, 50, 100), waits(0, 0, 100)])
        held = told[0].requests
    assert held == 100
    (_, other) = parts([waits(0, 50, 100), waits(0, 0, 100)])
    assert other.requests == 25


def report(fullness, **works):
    rows = [Backlog(priority=0, flow=flow, weight=1.0, work=work) for flow, work in works.items()]
    return PoolReport(backlog=rows, fullness=fullness)


@given(
    st.lists(
        st.tuples(st.floats(0.0, 0.5), st.dictionaries(st.sampled_from("abc"), st.integers(1, 99))),
        min_size=1,
        max_size=5,
    )
)
def test_rooms_add_up_to_no_more_than_there_is(rows):
    """Whoever has more in flight than is fair may send no more; nobody else gets what is not free."""
    reports = [report(fullness, **works) for fullness, works in rows]
    told = rooms(reports)
    taken = [max(room, row.fullness) for room, row in zip(told, reports, strict=True)]
    assert sum(taken) <= max(1.0, sum(row.fullness for row in reports)) + 1e-9


def test_room_goes_to_where_flows_wait_by_their_shares():
    """Of two flows one waits at both of two processes, the other at the second alone, which gets the more."""
    told = rooms([report(0.0, a=100), report(0.0, a=100, b=10)])
    assert told == pytest.approx([0.1 / 2 + 0.9 / 4, 0.1 / 2 + 0.9 * 3 / 4])


def test_a_process_with_too_much_in_flight_waits_until_it_has_less():
    """What ends there is the other's, as soon as it has ended."""
    assert rooms([report(0.9, a=1), report(0.1, b=1)]) == pytest.approx([0.5, 0.1])
    assert rooms([report(0.7, a=1), report(0.1, b=1)]) == pytest.approx([0.5, 0.3])
    assert rooms([report(0.5, a=1), report(0.3, b=1)]) == pytest.approx([0.5, 0.5])


def test_where_nobody_waits_free_room_is_everybodys():
    """So that a request that comes next goes at once, wherever it comes."""
    assert rooms([report(0.5), report(0.1)]) == pytest.approx([0.7, 0.3])


def test_the_highest_priority_that_waits_anywhere_decides():
    """What is lower does not go before it at another process."""
    low = PoolReport(backlog=[Backlog(priority=-1, flow="a", weight=1.0, work=999)], fullness=0.0)
    assert rooms([low, report(0.0, b=1)]) == pytest.approx([0.05, 0.95])


def test_a_rate_is_divided_by_what_waits():
    """Nothing is in flight by it."""
    assert rooms([report(None, a=1), report(None)]) == pytest.approx([0.95, 0.05])
    assert rooms([report(None), report(None)]) == pytest.approx([0.5, 0.5])
