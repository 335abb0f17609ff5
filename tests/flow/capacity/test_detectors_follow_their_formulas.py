"""The detectors of llm-d and Kthena say how full a pool is by their formulas."""

import math

import pytest

from headgate.flow.capacity import (
    Capacity,
    CapacitySettings,
    CeilingSettings,
    Concurrency,
    InFlight,
    Pace,
    SessionRoom,
    Utilization,
    make,
)


def following(capacity, *loads):
    capacity.follow(loads)
    return capacity


@pytest.mark.parametrize(
    ("pods", "saturation"),
    [
        ([(5, 0.0)], 1.0),  # F3
        ([(0, 0.4), (10, 0.0)], 1.25),  # F4: (0.5 + 2) / 2
        ([(0, 0.8), (0, 0.0)], 0.5),
        ([], 1.0),
    ],
)
def test_utilization_is_the_mean_of_the_fuller_of_queue_and_cache(load_of, pods, saturation):
    """Each endpoint counts max(waiting / 5, KV usage / 0.8), however much more than 1 that is."""
    capacity = following(Utilization(), *(load_of(waiting, kv) for waiting, kv in pods))
    assert capacity.saturation(0.1) == pytest.approx(saturation)
    assert capacity.has_room(0, 0.1) is (saturation < 1)


def test_an_endpoint_with_a_stale_reading_counts_as_full(load_of):
    """F5: beside one that is idle, that makes a half."""
    capacity = following(Utilization(), load_of(0, 0.0, at=0.0), load_of(0, 0.0, at=1.0))
    assert capacity.saturation(1.1) == pytest.approx(0.5)
    assert capacity.stale(1.1) == 1


def test_a_pool_of_which_nothing_is_known_does_not_stop(load_of):
    """Where all readings are stale or missing, requests in flight are counted instead."""
    capacity = following(Utilization(), load_of(0, 0.0, requests=30), load_of(requests=20))
    assert capacity.saturation(60.0) == pytest.approx(50 / 200)
    assert capacity.has_room(0, 60.0)


@pytest.mark.parametrize(("mode", "saturation"), [("requests", 0.3), ("tokens", 0.45), ("hybrid", 0.45)])
def test_concurrency_counts_what_is_in_flight(load_of, mode, saturation):
    """Against the bounds of all endpoints together: requests, tokens, or the greater of both."""
    capacity = Concurrency(mode=mode, max_requests=10, max_tokens=1000)
    following(capacity, load_of(requests=6), load_of())
    assert capacity.saturation(0.0) == pytest.approx(saturation)


def test_kthenas_semaphore_counts_over_all_endpoints(load_of):
    """FAIRNESS_MAX_CONCURRENT is of the pool, and not of each."""
    loads = [load_of(requests=2), load_of(requests=1)]
    assert following(InFlight(most=4), *loads).has_room(0, 0.0)
    assert not following(InFlight(most=3), *loads).has_room(0, 0.0)


def test_session_boost_admits_so_many_for_each_endpoint(load_of):
    """R39: with 2 in flight per Pod and one Pod, a third waits until one of them ends."""
    load = load_of(0, 0.1)
    capacity = following(SessionRoom(per_endpoint=2), load)
    bookings = []
    for _ in range(2):
        assert capacity.has_room(0, 0.0)
        bookings.append(load.book(100, 50, 0.0))
    assert not capacity.has_room(0, 0.0)
    bookings[0].end(1.0)
    assert capacity.has_room(0, 1.0)


def test_session_boost_wants_an_endpoint_with_nothing_waiting(load_of):
    """One of them is enough; one that says nothing is taken for such."""
    assert not following(SessionRoom(), load_of(1, 0.1), load_of(2, 0.1)).has_room(0, 0.0)
    assert following(SessionRoom(), load_of(1, 0.1), load_of(0, 0.1)).has_room(0, 0.0)
    assert following(SessionRoom(), load_of(1, 0.1), load_of()).has_room(0, 0.0)


def test_a_pace_lets_one_go_in_each_interval(load_of):
    """At 10 a second, 100 ms apart; a timer that is late does not slow it down, and nothing is saved up."""
    capacity = following(Pace(10.0), load_of())
    assert capacity.has_room(0, 5.0)
    capacity.sent(5.0)
    assert not capacity.has_room(0, 5.05)
    assert capacity.room_at(0, 5.05) == pytest.approx(5.1)
    capacity.sent(5.13)
    assert capacity.room_at(0, 5.13) == pytest.approx(5.2)
    capacity.sent(9.0)
    assert not capacity.has_room(0, 9.05)


def test_priorities_are_held_back_in_equal_steps():
    """F19: with a least ceiling of 0.5, the lowest band finds none at 0.6, the highest does."""
    capacity = _held_back(domain="rank")
    capacity.follow_bands([2, 1, 0])
    assert [capacity.ceiling(each, 0.0) for each in (2, 1, 0)] == pytest.approx([1.0, 0.75, 0.5])
    assert [capacity.has_room(each, 0.0) for each in (2, 1, 0)] == [True, True, False]


def test_priorities_are_held_back_by_their_values():
    """In proportion to where they lie between the lowest and the highest."""
    capacity = _held_back(domain="value")
    capacity.follow_bands([100, 10, 0])
    assert [capacity.ceiling(each, 0.0) for each in (100, 10, 0)] == pytest.approx([1.0, 0.55, 0.5])


def _held_back(domain):
    class Told(Capacity):
        def saturation(self, now):
            return 0.6

        def has_room(self, priority, now):
            self.loads = [None]
            return super().has_room(priority, now)

    made = make(
        CapacitySettings(
            detector="in-flight",
            ceilings=CeilingSettings(policy="priority-holdback-policy", least=0.5, domain=domain),
        )
    )
    return Told(made.ceilings)


def test_soft_ceilings_open_lower_bands_part_of_the_time(load_of):
    """At saturation 0.75 one of round(3) slices of time, at less than half all of it, at 1 none."""
    settings = CapacitySettings(
        detector="in-flight", most=100, ceilings=CeilingSettings(policy="soft-reflective-ceiling-policy")
    )
    load = load_of(requests=40)
    capacity = following(make(settings), load)
    capacity.follow_bands([1, 0])
    slices = [number / 1000 + 0.0005 for number in range(300)]
    assert all(capacity.has_room(0, at) for at in slices)
    for _ in range(35):
        load.book(1, 1, 0.0)
    assert sum(capacity.has_room(0, at) for at in slices) == 100
    assert all(capacity.has_room(1, at) for at in slices)
    closed = next(at for at in slices if not capacity.has_room(0, at))
    opens = capacity.room_at(0, closed)
    assert closed < opens <= closed + 0.003
    assert capacity.has_room(0, opens)
    for _ in range(25):
        load.book(1, 1, 0.0)
    assert not any(capacity.has_room(0, at) for at in slices)
    assert capacity.room_at(0, 0.0) == math.inf


@pytest.mark.parametrize("detector", ["predicted-work", "utilization-detector", "in-flight", "pace"])
def test_a_pool_without_endpoints_has_no_room(detector):
    """Whatever tells."""
    capacity = make(CapacitySettings(detector=detector))
    assert capacity.is_empty()
    assert not capacity.has_room(0, 0.0)
    assert capacity.saturation(0.0) == 1.0
    assert capacity.room_at(0, 0.0) == math.inf


def test_wrong_settings_are_told_all_at_once():
    """Each field with its value."""
    with pytest.raises(ValueError, match=r"ceilings\.least: .*; detector: .*'gpu'.*; target_s: .*got 0"):
        CapacitySettings(detector="gpu", target_s=0, ceilings=CeilingSettings(least=2))
