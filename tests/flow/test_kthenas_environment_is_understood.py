"""Kthena's variables set the same queue."""

import pytest

from headgate.flow import kthena


def test_nothing_asked_for_is_nothing_set():
    """Other variables alone do nothing."""
    assert kthena.from_environment({"FAIRNESS_MAX_QPS": "5"}) is None


def test_fairness_has_kthenas_defaults():
    """Windowed usage over 5 minutes, 100 requests a second, 60 s of waiting."""
    queue = kthena.from_environment({"ENABLE_FAIRNESS_SCHEDULING": "true"})
    window = queue.flow.window
    assert queue.flow.band.fairness == "windowed-usage"
    assert (window.window_s, window.input_weight, window.output_weight) == (300.0, 1.0, 2.0)
    assert (window.token_weight, window.request_weight) == (1.0, 0.0)
    assert queue.flow.ttl_s == 60.0
    assert (queue.capacity.detector, queue.capacity.per_s) == ("pace", 100.0)
    assert queue.flow_header == ""


def test_fairness_follows_its_variables():
    """A semaphore instead of a rate; both weights 0 are those of tokens; a bad window is the usual one."""
    queue = kthena.from_environment(
        {
            "ENABLE_FAIRNESS_SCHEDULING": "1",
            "FAIRNESS_MAX_CONCURRENT": "8",
            "FAIRNESS_WINDOW_SIZE": "2h",
            "FAIRNESS_QUEUE_TIMEOUT": "1m30s",
            "FAIRNESS_PRIORITY_TOKEN_WEIGHT": "0",
        }
    )
    assert (queue.capacity.detector, queue.capacity.most) == ("in-flight", 8)
    assert (queue.flow.window.window_s, queue.flow.window.token_weight) == (300.0, 1.0)
    assert queue.flow.ttl_s == 90.0


def test_session_boost_has_kthenas_defaults():
    """4096 sessions, 16 requests for each Pod, 30 s of waiting, sessions by their header."""
    queue = kthena.from_environment({"ENABLE_SESSION_BOOST": "true", "SESSION_BOOST_GRACE_PERIOD": "50ms"})
    assert queue.flow.band.fairness == "session-boost"
    assert (queue.flow.sessions.max_sessions, queue.flow.sessions.grace_s) == (4096, 0.05)
    assert (queue.capacity.detector, queue.capacity.per_endpoint) == ("session-room", 16)
    assert queue.flow.ttl_s == 30.0
    assert queue.flow_header == "x-session-id"


def test_every_wrong_variable_is_named():
    """All at once, each with its value."""
    with pytest.raises(ValueError, match="only one of both") as raised:
        kthena.from_environment(
            {
                "ENABLE_FAIRNESS_SCHEDULING": "true",
                "ENABLE_SESSION_BOOST": "true",
                "FAIRNESS_INPUT_TOKEN_WEIGHT": "-1",
                "FAIRNESS_QUEUE_TIMEOUT": "soon",
            }
        )
    assert "FAIRNESS_INPUT_TOKEN_WEIGHT: must be a number of at least 0, got '-1'" in str(raised.value)
    assert "FAIRNESS_QUEUE_TIMEOUT: must be a duration such as 30s or 5m, got 'soon'" in str(raised.value)
