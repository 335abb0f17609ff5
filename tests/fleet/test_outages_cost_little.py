"""Traffic over outages, in virtual time: how many requests fail, how many attempts are wasted, how long."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headgate import fleet, routing, scheduling

RETRIES = 2
PER_S = 50


REQUEST = scheduling.Request(model="m", prompt_tokens=10)


def pick(
    pool: list[fleet.EndpointState],
    now: float,
    rng: random.Random,
    tried: Sequence[fleet.EndpointState] = (),
) -> fleet.EndpointState | None:
    choice = scheduling.pick(scheduling.LeastWork(), REQUEST, pool, now, rng, tried)
    return choice.load if choice is not None else None


@dataclass
class Pool:
    """Endpoints that are dead when `is_dead` says so, and take no time to answer or to fail."""

    size: int
    is_dead: Callable[[int, float], bool]
    policy: fleet.EjectionPolicy = field(default_factory=fleet.EjectionPolicy)

    def __post_init__(self) -> None:
        self._rng = random.Random(1)
        self.loads = [
            fleet.EndpointState(routing.Endpoint(f"default/pod-{place}", "127.0.0.1", place), self.policy)
            for place in range(self.size)
        ]
        self.failed: list[float] = []
        self.wasted: list[float] = []
        self.served_by: list[list[float]] = [[] for _ in self.loads]

    def serve(self, begin: float, end: float) -> "Pool":
        """Requests come evenly; each is tried as often as the gateway would."""
        for number in range(int((end - begin) * PER_S)):
            self._one(begin + number / PER_S)
        return self

    def _one(self, now: float) -> None:
        tried: list[fleet.EndpointState] = []
        while len(tried) <= RETRIES:
            load = pick(self.loads, now, self._rng, tried)
            if load is None:
                break
            tried.append(load)
            place = self.loads.index(load)
            if not self.is_dead(place, now):
                load.succeeded(now)
                self.served_by[place].append(now)
                return
            load.failed(now)
            self.wasted.append(now)
        self.failed.append(now)


def test_one_of_two_is_dead():
    """No request fails, and after the first five attempts there is one for each ejection."""
    pool = Pool(2, lambda place, now: place == 0).serve(0, 600)
    assert pool.failed == []
    assert len(pool.wasted) <= 5 + 8


def test_one_of_two_comes_back():
    """It serves its share again at the latest when its last ejection and the slow start are over."""
    pool = Pool(2, lambda place, now: place == 0 and now < 60).serve(0, 300)
    assert pool.failed == []
    later = [at for at in pool.served_by[0] if at >= 200]
    assert abs(len(later) - 100 * PER_S / 2) < 300


def test_the_only_endpoint_is_asked_throughout():
    """Whatever it did, each request is tried: the first after its return is served."""
    pool = Pool(1, lambda place, now: 10 <= now < 70).serve(0, 100)
    assert pool.failed == pool.wasted
    assert all(10 <= at < 70 for at in pool.failed)
    assert pool.served_by[0][10 * PER_S] == 70


def test_all_fail_at_once_and_return_at_once():
    """Nobody waits for an ejection to end: requests are served from the moment of the return."""
    pool = Pool(4, lambda place, now: 10 <= now < 70).serve(0, 120)
    assert max(pool.failed) < 70
    after = [sum(at >= 75 for at in served) for served in pool.served_by]
    assert min(after) > 0.1 * sum(after)


def test_half_returns_from_an_outage_of_all():
    """Those that are back serve everything, and the dead cost next to nothing."""
    pool = Pool(4, lambda place, now: 10 <= now < (40 if place < 2 else 1e9)).serve(0, 140)
    assert max(pool.failed) < 40.5
    assert sum(at > 60 for at in pool.wasted) <= 2 * 8


def test_flapping_endpoint():
    """Three seconds dead, three alive, for ten minutes: no request fails, three attempts a cycle do."""
    pool = Pool(3, lambda place, now: place == 0 and now % 6 < 3).serve(0, 600)
    assert pool.failed == []
    assert len(pool.wasted) <= 600 / 6 * 3


def test_endpoint_that_fails_one_request_in_three():
    """Five in a row are rare then: it stays, and retries carry it."""
    rng = random.Random(7)
    pool = Pool(3, lambda place, now: place == 0 and rng.random() < 1 / 3).serve(0, 300)
    assert pool.failed == []
    assert len(pool.served_by[0]) > 0.02 * 300 * PER_S


def test_being_needed_does_not_make_ejections_longer():
    """An endpoint that is asked since the others are worse, and serves now and then, is not out for ever."""
    endpoint = fleet.EndpointState(routing.Endpoint("default/pod-0", "127.0.0.1", 1))
    for at in range(100):
        for _ in range(5):
            endpoint.failed(float(at))
        endpoint.responded(at + 0.5)
    for _ in range(5):
        endpoint.failed(100.0)
    assert endpoint.ejection.length_s <= 10
