"""Looks at an engine, one after the other: means over intervals, restarts, and what a failed look leaves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engines import Figures, Total
from headgate.fleet import Observation


def seen(*looks):
    """An observation after looks at (time, figures)."""
    observation = Observation()
    for at, figures in looks:
        observation.see(figures, at)
    return observation


def ttft(sum_s, count, **others):
    return Figures(waiting=0, ttft=Total(sum_s, count), **others)


def test_a_mean_is_of_the_last_interval():
    """Not of all that the engine has ever done, which says little of now."""
    reading = seen((0, ttft(100.0, 1000)), (1, ttft(104.0, 1002))).reading
    assert reading.ttft_s == 2.0
    assert reading.ttft_at == 1


def test_first_tokens_are_counted_between_looks():
    """How many there were since which look; unknown where those of responses in one piece count later."""
    reading = seen((0, ttft(100.0, 1000)), (1, ttft(104.0, 1002, ttft_is_of_all=True))).reading
    assert (reading.first_tokens, reading.ttft_since, reading.ttft_at) == (2, 0, 1)
    assert seen((0, ttft(100.0, 1000)), (1, ttft(104.0, 1002))).reading.first_tokens is None


def test_the_first_look_has_no_mean():
    """A counter alone is no interval."""
    assert seen((0, ttft(100.0, 1000))).reading.ttft_s is None


def test_a_quiet_interval_keeps_the_mean_and_lets_it_age():
    """At low traffic the figure does not flicker between a value and nothing."""
    reading = seen((0, ttft(0, 0)), (1, ttft(2.0, 4)), (2, ttft(2.0, 4)), (9, ttft(2.0, 4))).reading
    assert reading.ttft_s == 0.5
    assert reading.ttft_at == 1
    assert reading.at == 9


def test_a_part_of_a_sample_makes_no_mean():
    """Samples are whole; a second over next to none of one would be any number, or none at all."""
    assert seen((0, ttft(0, 0)), (1, ttft(1e12, 1e-300))).reading.ttft_s is None


def test_quick_looks_share_an_interval():
    """Looks of a tenth of a second have too few tokens each for a mean of their own."""
    looks = [(tenth / 10, ttft(tenth * 1.0, tenth)) for tenth in range(10)]
    assert seen(*looks).reading.ttft_s is None
    reading = seen(*looks, (1.0, ttft(29.0, 10))).reading
    assert reading.ttft_s == 2.9
    assert reading.ttft_at == 1.0


def test_a_page_without_the_histogram_keeps_the_mean():
    """One unreadable family is no reason to forget."""
    looks = (0, ttft(0, 0)), (1, ttft(2.0, 4)), (2, Figures(waiting=1)), (3, ttft(5.0, 6))
    assert seen(*looks[:3]).reading.ttft_s == 0.5
    assert seen(*looks).reading.ttft_s == 1.5


@pytest.mark.parametrize(
    "after",
    [
        ttft(1.0, 2),
        ttft(9.0, 4, started_at=2000.0),
        Figures(waiting=0, ttft=Total(9.0, 9), tpot=Total(0.5, 1)),
    ],
    ids=["fewer first tokens", "a later start of the process", "less time between tokens"],
)
def test_a_restart_is_noticed_once(after):
    """Its cache is empty then, and the means go on from what it has counted since."""
    observation = seen((0, Figures(waiting=0, ttft=Total(8.0, 4), tpot=Total(1.0, 9), started_at=1000.0)))
    assert observation.see(after, 5)
    assert not observation.see(after, 6)
    assert observation.restarts == 1


def test_the_mean_after_a_restart_is_of_what_was_counted_since():
    """Neither the difference to the time before, which is negative, nor nothing."""
    assert seen((0, ttft(100.0, 1000)), (5, ttft(3.0, 2))).reading.ttft_s == 1.5


def test_a_restart_forgets_which_models_were_there():
    """Adapters that were loaded at run time are gone."""
    observation = seen((0, ttft(8.0, 4)))
    observation.list_models({"base", "sql"}, 1)
    observation.see(ttft(0.0, 0), 2)
    assert observation.reading.models is None


def test_models_stay_from_page_to_page():
    """They are asked for less often."""
    observation = seen((0, Figures(waiting=1)))
    observation.list_models({"base"}, 1)
    assert observation.reading.at == 0
    observation.see(Figures(waiting=2), 3)
    assert observation.reading.models == {"base"}
    assert observation.reading.waiting == 2


def test_readings_tell_how_far_they_can_be_relied_on():
    """Nothing seen, then fresh, then stale as no look succeeds; a good one makes it fresh again."""
    observation = Observation()
    assert observation.state(0, 5) == "missing"
    observation.see(Figures(waiting=1), 10)
    assert observation.state(15, 5) == "fresh"
    assert observation.state(15.1, 5) == "stale"
    assert observation.reading.waiting == 1
    observation.see(Figures(waiting=1), 16)
    assert observation.state(16, 5) == "fresh"


def test_an_engine_without_page_is_told_from_one_that_does_not_answer():
    """Its models can be known all the same."""
    observation = Observation()
    observation.see_no_page(2)
    assert observation.reading is None
    observation.list_models({"base"}, 3)
    assert observation.state(3, 5) == "unsupported"
    assert (observation.reading.models, observation.reading.waiting) == ({"base"}, None)


def test_a_page_that_is_gone_says_nothing_any_more():
    """An engine that is replaced by one without a page must not keep the queue of the former."""
    observation = seen((0, Figures(waiting=7)))
    observation.list_models({"base"}, 1)
    observation.see_no_page(2)
    assert (observation.reading.models, observation.reading.waiting) == ({"base"}, None)


@given(
    st.lists(
        st.tuples(st.floats(0.01, 3), st.integers(0, 5), st.floats(0, 10), st.booleans()),
        min_size=1,
        max_size=30,
    )
)
def test_means_are_never_outside_of_what_was_measured(steps):
    """Whatever the intervals and restarts: a mean is of samples that were between its bounds."""
    observation = Observation()
    at, total, longest = 0.0, Total(0.0, 0.0), 0.0
    for pause_s, count, each_s, restarts in steps:
        at += pause_s
        if restarts:
            total = Total(0.0, 0.0)
        total = Total(total.sum_s + count * each_s, total.samples + count)
        longest = max(longest, each_s)
        observation.see(Figures(waiting=0, ttft=total), at)
        mean_s = observation.reading.ttft_s
        # A restart that has caught up with what was counted before cannot be told from work.
        if mean_s is not None and not any(restarted for *_, restarted in steps):
            assert mean_s <= longest * 1.001 + 1e-6
        assert mean_s is None or mean_s >= 0
