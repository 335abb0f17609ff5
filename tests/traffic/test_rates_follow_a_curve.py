import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.traffic import traces
from headgate.traffic.traces import RateCurve, TimedRequest, TraceError

HEADING = "start_s,requests_per_s"


def evenly(count: int, from_s: float = 0.0) -> list[TimedRequest]:
    return [TimedRequest(at_s=from_s + n, prompt_tokens=n + 1, output_tokens=1) for n in range(count)]


def read(*lines: str) -> RateCurve:
    return traces.read_curve("rate.csv", [line.encode() for line in lines])


def test_a_curve_is_read_with_the_length_of_its_intervals():
    """Each lasts until the next begins; the last as long as the one before."""
    curve = read(HEADING, "0,14.8633", "600,18.4033", "", "1200,0")
    assert curve == RateCurve((0, 600, 1200, 1800), (14.8633, 18.4033, 0))


def test_requests_crowd_where_the_curve_is_high():
    """Three times the rate, three times the requests; the time of all stays."""
    curve = read(HEADING, "0,1", "10,3")
    moved = [each.at_s for each in traces.follow(evenly(401, from_s=7.0), curve)]
    assert (moved[0], moved[-1]) == (7.0, pytest.approx(407.0))
    assert sum(at < 207 for at in moved) == 100
    assert moved == sorted(moved)


def test_nothing_comes_while_the_curve_is_at_zero():
    """Neither at its beginning, nor between, nor at its end."""
    curve = read(HEADING, "0,0", "1,2", "2,0", "3,2", "4,0")
    moved = [each.at_s for each in traces.follow(evenly(101), curve)]
    assert all(20 <= at <= 40.001 or 60 <= at <= 80.001 for at in moved)


@given(
    st.lists(st.floats(0, 100), min_size=2, max_size=10).filter(any),
    st.lists(st.floats(0, 1e5), max_size=30).map(sorted),
)
def test_no_curve_changes_the_order_or_the_span(rates, times):
    """Requests are the same, one after the other, from where the first was to where the last was."""
    asked = [TimedRequest(at_s=at, prompt_tokens=1, output_tokens=1) for at in times]
    curve = RateCurve(tuple(map(float, range(len(rates) + 1))), tuple(rates))
    moved = [each.at_s for each in traces.follow(asked, curve)]
    assert len(moved) == len(times)
    assert all(later >= earlier - 1e-6 for earlier, later in itertools.pairwise(moved))
    if times:
        assert times[0] - 1e-6 <= moved[0]
        assert moved[-1] <= times[-1] + 1e-6 * (1 + times[-1])


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["0,1"], 'rate.csv:1: the heading is "0,1"; it is start_s,requests_per_s'),
        (
            ["start_s,requests_per_s", "0,1", "0,2"],
            "rate.csv:3: start_s: 0 does not come after the line above",
        ),
        (
            ["start_s,requests_per_s", "0,1", "1,-2"],
            "rate.csv:3: requests_per_s: -2 is not a rate, at least 0",
        ),
        (
            ["start_s,requests_per_s", "0,1", "1,nan"],
            "rate.csv:3: requests_per_s: nan is not a rate, at least 0",
        ),
        ([HEADING, "0,1", "1"], 'rate.csv:3: "1" is not two numbers'),
        ([HEADING, "0,1"], "rate.csv:1: a curve has at least two intervals"),
        ([HEADING, "0,0", "1,0"], "rate.csv:1: a curve has at least two intervals"),
        ([], "rate.csv:1: a curve has at least two intervals"),
    ],
)
def test_a_line_that_is_wrong_is_named(lines, told):
    """As in traces."""
    with pytest.raises(TraceError) as caught:
        read(*lines)
    assert str(caught.value).startswith(told)
