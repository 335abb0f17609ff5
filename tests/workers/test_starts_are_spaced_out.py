"""After failures, starts of a worker are further and further apart, but less so while no worker serves."""

import itertools

from headgate.workers.backoff import LONGEST_ALONE_S, LONGEST_DELAY_S, STEADY_S, Backoff


def test_delays_double_up_to_half_a_minute():
    """While other workers serve."""
    backoff = Backoff()
    delays = [backoff.after_failed_start(is_alone=False) for _ in range(9)]
    assert delays == [0.5, 1, 2, 4, 8, 16, LONGEST_DELAY_S, LONGEST_DELAY_S, LONGEST_DELAY_S]


def test_they_are_short_while_nobody_serves():
    """Clients wait meanwhile."""
    backoff = Backoff()
    delays = [backoff.after_failed_start(is_alone=True) for _ in range(12)]
    assert max(delays) == LONGEST_ALONE_S
    assert all(before <= after for before, after in itertools.pairwise(delays))


def test_the_first_end_is_no_reason_to_wait():
    """Nor is one after a long time of service."""
    backoff = Backoff()
    assert [backoff.after_end(1.0, is_alone=False) for _ in range(4)] == [0, 0.5, 1, 2]
    assert backoff.after_end(STEADY_S, is_alone=False) == 0
    assert backoff.after_end(1.0, is_alone=False) == 0.5


def test_what_may_be_mended_is_forgotten():
    """New settings begin anew."""
    backoff = Backoff()
    for _ in range(9):
        backoff.after_failed_start(is_alone=False)
    backoff.forget()
    assert backoff.after_failed_start(is_alone=False) == 0.5
