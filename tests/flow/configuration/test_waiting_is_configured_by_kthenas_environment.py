"""The names of Kthena's router."""

import pytest

from headgate.flow.configuration import ENVIRONMENT, of_kthena
from headgate.scheduling.configuration import Problems


def read(**environment: str):
    problems = Problems()
    return of_kthena(environment, problems), [(each.severity, each.path) for each in problems.found]


def test_fairness_with_its_defaults():
    """A window of five minutes, answers at twice the price, a hundred requests a second (R37)."""
    found, problems = read(ENABLE_FAIRNESS_SCHEDULING="true")
    assert not problems
    flow, window = found.flow, found.flow.window
    assert (flow.band.fairness, flow.ttl_s) == ("windowed-usage", 60.0)
    assert (window.window_s, window.input_weight, window.output_weight) == (300.0, 1.0, 2.0)
    assert (window.token_weight, window.request_weight) == (1.0, 0.0)
    assert (found.capacity.detector, found.capacity.per_s) == ("pace", 100.0)


def test_fairness_with_everything_said():
    """Requests at once replace requests a second."""
    found, problems = read(
        ENABLE_FAIRNESS_SCHEDULING="1",
        FAIRNESS_QUEUE_TIMEOUT="90s",
        FAIRNESS_WINDOW_SIZE="1h",
        FAIRNESS_INPUT_TOKEN_WEIGHT="1.5",
        FAIRNESS_OUTPUT_TOKEN_WEIGHT="3.0",
        FAIRNESS_PRIORITY_TOKEN_WEIGHT="0",
        FAIRNESS_PRIORITY_REQUEST_NUM_WEIGHT="2",
        FAIRNESS_MAX_CONCURRENT="40",
        FAIRNESS_MAX_QPS="7",
        FAIRNESS_PRIORITY_REFRESH_RETRIES="3",
    )
    window = found.flow.window
    assert (found.flow.ttl_s, window.window_s) == (90.0, 3600.0)
    assert (window.input_weight, window.output_weight) == (1.5, 3.0)
    assert (window.token_weight, window.request_weight) == (0.0, 2.0)
    assert (found.capacity.detector, found.capacity.most) == ("in-flight", 40)
    assert problems == [("note", "FAIRNESS_PRIORITY_REFRESH_RETRIES")]


def test_session_boost():
    """A flow is what its header says; without one, Kthena's (R39)."""
    found, problems = read(
        ENABLE_SESSION_BOOST="True",
        SESSION_BOOST_INFLIGHT_PER_POD="2",
        SESSION_BOOST_GRACE_PERIOD="250ms",
        SESSION_BOOST_TIMEOUT="-1s",
    )
    assert not problems
    assert (found.flow.band.fairness, found.flow.ttl_s) == ("session-boost", 0.0)
    assert (found.flow.sessions.max_sessions, found.flow.sessions.grace_s) == (4096, 0.25)
    assert (found.capacity.detector, found.capacity.per_endpoint) == ("session-room", 2)
    assert found.flow_header == "x-session-id"


@pytest.mark.parametrize("name", ["ENABLE_FAIRNESS_SCHEDULING", "ENABLE_SESSION_BOOST"])
def test_what_is_off_is_told(name):
    """Whatever else is set has no effect then, right or wrong."""
    assert read(**{name: "false"}, FAIRNESS_MAX_QPS="nonsense") == (None, [("note", "FAIRNESS_MAX_QPS")])


def test_both_at_once_are_refused():
    """There is one queue."""
    found, problems = read(ENABLE_FAIRNESS_SCHEDULING="true", ENABLE_SESSION_BOOST="true")
    assert found is None
    assert problems == [("error", "ENABLE_SESSION_BOOST")]


def test_values_out_of_range_are_told_and_their_defaults_stand():
    """A window of a day, negative weights, words; and two weights of 0, which would order nothing."""
    found, problems = read(
        ENABLE_FAIRNESS_SCHEDULING="true",
        FAIRNESS_WINDOW_SIZE="24h",
        FAIRNESS_INPUT_TOKEN_WEIGHT="-1",
        FAIRNESS_MAX_QPS="many",
        FAIRNESS_PRIORITY_TOKEN_WEIGHT="0",
    )
    assert sorted(path for _, path in problems) == [
        "FAIRNESS_INPUT_TOKEN_WEIGHT",
        "FAIRNESS_MAX_QPS",
        "FAIRNESS_WINDOW_SIZE",
    ]
    assert found.flow.window.window_s == 300.0
    assert found.flow.window.token_weight == 1.0
    assert found.capacity.per_s == 100.0
    assert all(path in ENVIRONMENT for _, path in problems)


def test_what_is_wrong_is_told_with_what_would_be_right():
    """A duration that is one, and too short, is told so; the default has its unit."""
    problems = Problems()
    of_kthena({"ENABLE_FAIRNESS_SCHEDULING": "true", "FAIRNESS_QUEUE_TIMEOUT": "-5s"}, problems)
    assert [problem.message for problem in problems.found] == [
        "'-5s' is not a duration of at least 0s: 1m0s stands"
    ]
