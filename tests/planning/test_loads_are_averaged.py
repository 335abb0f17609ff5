"""What engines had to do in the last minute, from readings of 15 s each."""

import pytest

from headgate.planning.load import Load, MeanLoad


def read(arrivals: float, **more: float) -> Load:
    return Load(arrivals_per_s=arrivals, **more)


def test_a_minute_is_the_mean_of_its_windows():
    """By requests and tokens; readings of the same window count once."""
    known = MeanLoad()
    loads = [
        read(
            2,
            prompt_tokens=100,
            cached_share=0.5,
            ttft_ms=100,
            timed_requests=30,
            itl_ms=10,
            timed_tokens=600,
        ),
        read(0),
        read(4, prompt_tokens=400, ttft_ms=300, timed_requests=10, itl_ms=30, timed_tokens=200, waiting=2),
        read(2, prompt_tokens=100, queued_requests=3),
    ]
    for second in range(60):
        assert known.mean() is None or second > 45
        known.add(loads[second // 15], 1000.0 + second)
    mean = known.mean()
    assert mean is not None
    assert mean.arrivals_per_s == 2
    assert mean.prompt_tokens == (2 * 100 + 4 * 400 + 2 * 100) / 8
    assert mean.cached_share == pytest.approx(100 / 2000)
    assert mean.ttft_ms == (30 * 100 + 10 * 300) / 40
    assert mean.itl_ms == (600 * 10 + 200 * 30) / 800
    assert mean.output_tokens == 1 + 800 / 40, "those that there were, not those that were expected"
    assert (mean.timed_requests, mean.timed_tokens, mean.queued_requests, mean.waiting) == (40, 800, 3, 2)


def test_a_gap_begins_another_minute():
    """And so does a clock that is set back."""
    for gap_s in (31.0, -1.0):
        known = MeanLoad()
        for window in range(4):
            known.add(read(1), 15.0 * window)
        assert known.mean() == read(1)
        known.add(read(2), 45 + gap_s)
        assert known.mean() is None
        for window in range(1, 4):
            known.add(read(2), 45 + gap_s + 15 * window)
        assert known.mean() == read(2)


def test_without_requests_nothing_is_known_of_them():
    known = MeanLoad()
    for window in range(4):
        known.add(read(0), 15.0 * window)
    assert known.mean() == read(0)
