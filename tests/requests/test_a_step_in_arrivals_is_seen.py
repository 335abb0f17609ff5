"""Work follows a step in arrivals within about a second, and is not misled by chance or by a burst."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.requests.traffic import PoolTraffic


class Minute:
    """Traffic of a pool over time, with a sweep each second."""

    def __init__(self) -> None:
        self.now = 100.0
        self.traffic = PoolTraffic(self.now)

    def arrives(self, at: list[float]) -> None:
        """At these times, in seconds from now, which moves on by a second, with a sweep in its middle."""
        for each in sorted(at):
            if each >= 0.5:
                break
            self._arrive(each)
        self.traffic.sweep(self.now + 0.5)
        for each in sorted(at):
            if each >= 0.5:
                self._arrive(each)
        self.now += 1.0

    def _arrive(self, at: float) -> None:
        self.traffic.entered(self.now + at)
        self.traffic.asks(100, 10, 0)

    def evenly(self, per_s: int, seconds: int) -> None:
        for _ in range(seconds):
            self.arrives([(number + 0.5) / per_s for number in range(per_s)])

    @property
    def surge(self) -> float:
        return self.traffic.recent(self.now).surge

    @property
    def arrivals(self) -> float:
        """What the work is in proportion to."""
        recent = self.traffic.recent(self.now)
        return recent.arrivals_per_s * recent.surge


@pytest.mark.parametrize("before", [2, 5, 20])
def test_eight_times_as_many_are_seen_within_two_seconds(before):
    """With all of them, not only the part that a mean over the window would have."""
    minute = Minute()
    minute.evenly(before, 30)
    assert minute.surge == 1.0
    minute.evenly(8 * before, 2)
    assert minute.arrivals == pytest.approx(8 * before, rel=0.3)
    minute.evenly(8 * before, 20)
    assert minute.arrivals == pytest.approx(8 * before, rel=0.1)


def test_a_step_from_nothing_is_one():
    minute = Minute()
    minute.evenly(0, 20)
    minute.evenly(20, 2)
    assert minute.arrivals == pytest.approx(20, rel=0.3)


def test_requests_that_come_all_at_once_are_none():
    """They are a backlog, which is counted as such."""
    minute = Minute()
    minute.evenly(2, 20)
    minute.arrives([0.5] * 200)
    assert minute.surge == 1.0


def test_a_surge_that_is_over_counts_no_longer():
    minute = Minute()
    minute.evenly(2, 20)
    minute.evenly(20, 3)
    assert minute.surge > 2
    minute.evenly(2, 3)
    assert minute.surge == 1.0


def test_bursts_that_come_again_and_again_are_no_step():
    """What is usual is no surprise."""
    minute = Minute()
    for _ in range(10):
        minute.evenly(20, 1)
        minute.evenly(0, 4)
    minute.evenly(20, 1)
    assert minute.surge == 1.0


@given(seed=st.integers(0, 10**9), per_s=st.sampled_from([0.2, 1, 3, 10, 40]))
def test_chance_is_no_step(seed, per_s):
    """Poisson arrivals at one rate."""
    rng = random.Random(seed)
    minute = Minute()
    for _ in range(40):
        at, times = rng.expovariate(per_s), []
        while at < 1:
            times.append(at)
            at += rng.expovariate(per_s)
        minute.arrives(times)
        assert 1.0 <= minute.surge < 2.5


@given(st.lists(st.lists(st.floats(0, 0.999), max_size=30), max_size=25))
def test_any_arrivals_give_a_factor(seconds):
    """At least 1, and never more than all arrivals of the window would make in a second."""
    minute = Minute()
    for each in seconds:
        minute.arrives(each)
        assert 1.0 <= minute.surge <= 20.0
