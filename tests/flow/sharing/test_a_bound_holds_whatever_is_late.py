"""Bounds of what waits or is in flight hold for all processes, whatever comes late of what they tell."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from some_processes import Process

from headgate.flow.capacity import Capacity
from headgate.flow.queue import BandSettings, FlowSettings
from headgate.flow.sharing import Hub


class Counted(Capacity):
    """Room for so many requests that run."""

    def __init__(self, most):
        super().__init__()
        self.most = most
        self.loads = [object()]
        self.running = 0

    def fullness(self, now):
        return self.running / self.most

    def saturation(self, now):
        return self.fullness(now) / self.share


class Mail:
    """Messages, which take as long as it likes, but keep the order of their sender's."""

    def __init__(self, rng):
        self._rng, self._lines = rng, {}

    def post(self, line, deliver):
        self._lines.setdefault(line, []).append(deliver)

    def deliver(self):
        for messages in list(self._lines.values()):
            while messages and self._rng.random() < 0.5:
                messages.pop(0)()


def story(rng, count, most, steps=300, moves=0.05):
    """Requests come and end anywhere; how many ran at once, over time. `moves` is how often most of them come
    to another process."""
    hub, mail = Hub(count), Mail(rng)
    processes = [Process(FlowSettings(), Counted(most), count, place) for place in range(count)]
    told = {}
    most_running, busy = [], rng.randrange(count)
    for step in range(steps):
        now = step / 50
        if rng.random() < moves:
            busy = rng.randrange(count)
        for place, process in enumerate(processes):
            capacity = process.capacity
            if place == busy or rng.random() < 0.1:
                for _ in range(rng.randrange(6)):
                    process.enter(now, flow=str(place))
            while process.queue.next(now) is not None:
                capacity.running += 1
            ended = rng.randrange(3) if rng.random() < 0.7 else rng.randrange(10)
            capacity.running -= min(capacity.running, ended)
            while process.queue.next(now) is not None:
                capacity.running += 1
            if rng.random() < 0.3 and (len(process.queue) or told.get(place) != capacity.share):
                report = process.queue.report(process.came, process.charges.take(), now)
                told[place] = capacity.share
                process.came.clear()
                mail.post(("to", place), lambda place=place, report=report: hub.hear(place, {"pool": report}))
        most_running.append(sum(process.capacity.running for process in processes))
        if rng.random() < 0.5:
            for place, shares in hub.shares().items():
                process = processes[place]
                mail.post(
                    ("from", place), lambda it=process, share=shares["pool"], at=now: it.take(share, at)
                )
        mail.deliver()
    return most_running


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(2, 5), most=st.integers(1, 40))
def test_no_more_run_than_one_for_each_process_beyond_it(seed, count, most):
    """Whoever is silent counts with all that it may send."""
    assert max(story(random.Random(seed), count, most)) <= most + count - 1


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(2, 5), most=st.integers(0, 40))
def test_no_more_wait_than_the_bound(seed, count, most):
    """Of one priority, and in all, while requests come and are taken out anywhere."""
    rng = random.Random(seed)
    hub, mail = Hub(count), Mail(rng)
    flow = FlowSettings(max_requests=most, band=BandSettings(max_requests=most // 2))
    capacities = [Counted(10**6) for _ in range(count)]
    processes = [Process(flow, capacity, count, place) for place, capacity in enumerate(capacities)]
    for step in range(100):
        now, busy = step / 50, rng.randrange(count)
        for place, process in enumerate(processes):
            for _ in range(rng.randrange(most + 2) if place == busy else rng.randrange(3)):
                process.enter(now, priority=rng.randrange(2))
            for _ in range(rng.choice([0, 0, 1, 5])):
                process.queue.next(now)
            if rng.random() < 0.4:
                report = process.queue.report(process.came, process.charges.take(), now)
                process.came.clear()
                mail.post(("to", place), lambda who=process, report=report: hub.hear(who, {"pool": report}))
        if most:
            assert sum(len(process.queue) for process in processes) <= most
        for priority in (0, 1):
            waiting = sum(len(process.queue._bands.of(priority)) for process in processes)
            assert waiting <= (most // 2 or most or math.inf)
        if rng.random() < 0.5:
            for process, shares in hub.shares().items():
                share = shares["pool"]
                mail.post(("from", process), lambda it=process, share=share, at=now: it.take(share, at))
        mail.deliver()


@pytest.mark.parametrize("count", [2, 4])
def test_most_of_it_is_used(count):
    """Although what one may have no more has to be given up before another gets it."""
    running = story(random.Random(1), count, 20, steps=1000, moves=0.0)
    assert sum(running[200:]) / len(running[200:]) > 10
