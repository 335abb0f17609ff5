"""What takes long is told from what usually happens in the pool."""

import math

from headgate.fleet import Waits


def waits(*seconds, least_s=0.25, step_s=0.01, **more):
    known = Waits(step_s, least_s, **more)
    for each in seconds:
        known.note(each)
    return known


def test_too_little_is_known():
    """Of fifty on."""
    assert waits(*[0.1] * 49).long_s(0.0) is None
    assert waits(*[0.1] * 50).long_s(0.0) is not None


def test_three_times_the_99th_percentile():
    """One of a hundred may be longer; two may not."""
    assert math.isclose(waits(*[0.095] * 199, 2.0).long_s(0.0), 0.3)
    assert waits(*[0.095] * 98, 2.0, 2.0).long_s(0.0) > 6.0


def test_there_is_a_least():
    """However short waits are."""
    assert waits(*[0.0] * 100).long_s(0.0) == 0.25


def test_a_few_slow_ones_hide_nothing():
    """At most so many times the median, or five seconds, whichever is longer."""
    slow = [20.0] * 5
    assert waits(*[0.9] * 95, *slow, step_s=0.25, medians=10.0).long_s(0.0) == 10.0
    assert waits(*[0.1] * 95, *slow, step_s=0.25, medians=10.0).long_s(0.0) == 5.0
    assert waits(*[0.1] * 95, *slow, step_s=0.25).long_s(0.0) > 60.0
    assert waits(*[0.9] * 100, step_s=0.25, medians=10.0).long_s(0.0) == 3.0


def test_waits_beyond_what_is_counted():
    """Where they are usual, nothing is called long."""
    assert waits(*[0.1] * 90, *[100.0] * 10).long_s(0.0) == math.inf


def test_what_is_usual_changes():
    """After some thousands of waits the old ones hardly count."""
    known = waits(*[2.0] * 4000)
    for second in range(40):
        for _ in range(4000):
            known.note(0.1)
        known.long_s(float(second))
    assert known.long_s(100.0) < 0.5
