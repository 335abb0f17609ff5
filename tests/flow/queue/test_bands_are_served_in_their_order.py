"""Requests of a higher priority go first, those of one priority in the order of their arrival."""

import random

from headgate import routing
from headgate.fleet import EndpointLoad
from headgate.flow.capacity import PredictedWork
from headgate.flow.queue import FlowQueue, FlowSettings, Waiting


def test_the_highest_goes_first_and_then_the_oldest():
    """Whoever comes first goes first within a priority; a higher priority goes before all of them."""
    pool = [EndpointLoad(routing.Endpoint("a", "127.0.0.1", 8000))]
    capacity = PredictedWork()
    capacity.follow(pool)
    queue = FlowQueue(FlowSettings(), capacity, random.Random(1))
    for name, priority in (("low", -1), ("first", 0), ("second", 0), ("high", 1)):
        waiting = Waiting(name, flow="", priority=priority, work=10, size=1, arrived=0.0)
        assert queue.enter(waiting, 0.0) is None
    assert [queue.next(0.0).owner for _ in range(4)] == ["high", "first", "second", "low"]
    assert queue.next(0.0) is None
