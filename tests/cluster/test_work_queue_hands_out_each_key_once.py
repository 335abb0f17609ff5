"""The queue's rules, in virtual time and for any order of calls."""

import random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headgate.cluster import Backoff, DueKeys

KEYS = st.sampled_from("abc")


def test_asking_twice_is_asking_once():
    """A key that waits is not handed out a second time."""
    queue = DueKeys()
    queue.add("a", 0)
    queue.add("a", 0)
    assert queue.take(0) == "a"
    queue.done("a")
    assert queue.take(0) is None


def test_what_is_asked_for_during_processing_comes_after_it():
    """The key is not given to a second worker, and not forgotten either."""
    queue = DueKeys()
    queue.add("a", 0)
    queue.take(0)
    queue.add("a", 1)
    assert queue.take(1) is None
    queue.done("a")
    assert queue.take(1) == "a"


def test_the_earliest_of_two_times_counts():
    """A change that arrives now does not wait for the retry in a minute, nor happen again then."""
    queue = DueKeys()
    queue.add("a", 60)
    assert queue.take(59) is None
    queue.add("a", 10)
    assert queue.next_due() == 10
    assert queue.take(10) == "a"
    queue.done("a")
    assert queue.take(60) is None


def test_failures_wait_longer_and_longer_until_one_attempt_goes_well():
    """Each delay lies between half of the doubled base and all of it, up to the cap."""
    queue, rng = DueKeys(Backoff(base_s=1, cap_s=30)), random.Random(1)
    delays = [queue.retry("a", 0, rng) for _ in range(8)]
    for delay, full in zip(delays, [1, 2, 4, 8, 16, 30, 30, 30], strict=True):
        assert full / 2 <= delay <= full
    queue.forget("a")
    assert queue.retry("a", 0, rng) <= 1


def test_keys_come_in_the_order_of_their_times():
    """Nobody overtakes: who was due first is first, and equal times are in order of arrival."""
    queue = DueKeys()
    for key, due in (("late", 5), ("first", 1), ("second", 1), ("third", 2)):
        queue.add(key, due)
    assert [queue.take(9) for _ in range(4)] == ["first", "second", "third", "late"]


def test_moving_a_key_forward_for_ever_costs_no_memory():
    """A key that is asked for earlier and earlier leaves nothing behind."""
    queue = DueKeys()
    for number in range(10_000):
        queue.add("a", 10_000 - number)
    assert len(queue._heap) < 100


class AnyOrder(RuleBasedStateMachine):
    """Against a model: a due time per key, and a set of keys in processing."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: DueKeys[str] = DueKeys()
        self.due: dict[str, float] = {}
        self.processing: set[str] = set()
        self.now = 0.0

    @rule(key=KEYS, delay=st.integers(0, 5))
    def add(self, key, delay):
        self.queue.add(key, self.now + delay)
        self.due[key] = min(self.due.get(key, self.now + delay), self.now + delay)

    @rule(key=KEYS, seed=st.integers(0, 9))
    def retry(self, key, seed):
        due = self.now + self.queue.retry(key, self.now, random.Random(seed))
        self.due[key] = min(self.due.get(key, due), due)

    @rule(seconds=st.integers(0, 3))
    def pass_time(self, seconds):
        self.now += seconds

    @rule()
    def take(self):
        ready = {key: due for key, due in self.due.items() if due <= self.now and key not in self.processing}
        key = self.queue.take(self.now)
        if not ready:
            assert key is None
            return
        assert ready[key] == min(ready.values())
        del self.due[key]
        self.processing.add(key)

    @rule(key=KEYS)
    def done(self, key):
        self.queue.done(key)
        self.processing.discard(key)

    @invariant()
    def agrees(self):
        self.queue.validate()
        statistics = self.queue.statistics(self.now)
        assert statistics.processing == len(self.processing)
        assert statistics.waiting + statistics.delayed == len(self.due.keys() - self.processing)


TestAnyOrder = AnyOrder.TestCase


@pytest.mark.parametrize("failures", [1, 10, 10_000])
def test_a_backoff_never_exceeds_its_cap(failures):
    """Also after so many failures that doubling would overflow."""
    assert Backoff(base_s=0.2, cap_s=30).delay_s(failures, random.Random(failures)) <= 30
