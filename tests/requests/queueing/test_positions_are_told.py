"""Positions in a queue, if no further requests arrive."""

import gc
import weakref
from itertools import count

from headgate.flow.queue import Waiting
from headgate.requests.queueing.positions import FRESH_S, Positions

NUMBERS = count(1)


def wait(flow="", priority=0, work=10):
    found = Waiting(None, flow=flow, priority=priority, work=work, size=0, arrived=0.0)
    found.order = next(NUMBERS)
    return found


def test_higher_priorities_come_first_and_flows_by_turns():
    """Of one flow the first, then of the next; with the work up to one's own."""
    noisy, quiet, urgent = [wait("noisy") for _ in range(3)], wait("quiet"), wait(priority=1)
    waiting = [*noisy, quiet, urgent]
    positions = Positions()
    found = [positions.of(each, waiting, 5.0) for each in (urgent, noisy[0], quiet, noisy[1], noisy[2])]
    assert found == [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)]


def test_a_count_is_kept_for_a_while():
    """Many who ask at once are answered by one."""
    first, second = wait(), wait()
    positions = Positions()
    assert positions.of(second, [first, second], 5.0) == (2, 20)
    assert positions.of(second, [second], 5.0 + FRESH_S / 2) == (2, 20)
    assert positions.of(second, [second], 5.0 + FRESH_S) == (1, 10)


def test_who_waits_no_more_is_let_go():
    """A count that nobody asks for again keeps no request, and no body of one."""

    class Owner:
        pass

    held = wait()
    held.owner = Owner()
    seen = weakref.ref(held.owner)
    positions = Positions()
    assert positions.of(held, [held], 5.0) == (1, 10)
    del held
    gc.collect()
    assert seen() is None


def test_who_has_just_come_is_counted_at_once():
    """However fresh the last count is."""
    first, second = wait(), wait()
    positions = Positions()
    assert positions.of(first, [first], 5.0) == (1, 10)
    assert positions.of(second, [first, second], 5.0) == (2, 20)
