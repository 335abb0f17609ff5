"""The floor of a band is a share of the work within a bound, and a credit that cannot be used is one, too."""

import math
import random

from flow_pools import Room
from hypothesis import given
from hypothesis import strategies as st

from headgate.flow.queue import FlowQueue, FlowSettings, Waiting

LARGEST = 1000
works = st.integers(1, LARGEST)


def filled(bands, **settings):
    """A full pool, and a queue with requests of these amounts of work in bands from 0 up."""
    room = Room()
    queue = FlowQueue(FlowSettings(**settings), room, random.Random(1))
    for priority, amounts in enumerate(bands):
        for work in amounts:
            queue.enter(Waiting(None, flow="", priority=priority, work=work, size=1, arrived=0.0), 0.0)
    return room, queue


@given(
    floor=st.sampled_from([0.05, 0.2, 0.5]),
    bands=st.lists(st.lists(works, min_size=5, max_size=20), min_size=2, max_size=4),
    closed=st.lists(st.sets(st.integers(0, 2)), min_size=20, max_size=60),
    promote_after_s=st.sampled_from([5.0, math.inf]),
)
def test_no_credit_is_above_the_largest_request_of_each_band(floor, bands, closed, promote_after_s):
    """Whichever bands find no room meanwhile, and whoever goes before them by age."""
    room, queue = filled(bands, floor_share=floor, promote_after_s=promote_after_s)
    for step, shut in enumerate(closed):
        room.closed, room.slots = shut, 1
        queue.next(step / 4)
        assert all(0.0 <= band.credit <= len(bands) * LARGEST for band in queue.explain(step / 4).bands)


def test_a_band_without_room_saves_up_no_more_than_a_few_requests():
    """After a thousand requests of the other, it is before it for two, and has its share from then on."""
    room, queue = filled([[100] * 1000, [100] * 3000], floor_share=0.2)
    room.closed, room.slots = {0}, 1000
    for _ in range(1000):
        queue.next(0.0)
    room.closed, room.slots = set(), 102
    went = [queue.next(0.0).priority for _ in range(102)]
    assert went[:4] == [0, 0, 1, 1]
    assert went[2:].count(0) == 20


@given(floor=st.floats(0.01, 0.5), low=st.lists(works, min_size=40), high=st.lists(works, min_size=40))
def test_beside_one_other_a_band_has_its_floor_at_any_time(floor, low, high):
    """But for two requests of the largest size, however large each of them is."""
    room, queue = filled([low, high], floor_share=floor)
    room.slots = math.inf
    left = [len(low), len(high)]
    sent = [0, 0]
    while all(left):
        waiting = queue.next(0.0)
        left[waiting.priority] -= 1
        sent[waiting.priority] += waiting.work
        assert sent[0] >= floor * sum(sent) - 2 * LARGEST
