"""How one status follows another."""

import pytest

from headgate import api
from headgate.controllers import conditions
from headgate.controllers.conditions import Finding

THEN, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
GOOD = Finding("Ready", True, "EndpointsReady", "1 of 1 Pods ready")
BETTER = Finding("Ready", True, "EndpointsReady", "2 of 2 Pods ready")
BAD = Finding("Ready", False, "NoReadyEndpoints", "0 of 2 Pods ready")


def status(*findings: Finding, generation: int = 1, now: str = THEN) -> api.ObservedStatus:
    return conditions.observed(None, findings, generation, now)


def test_time_stands_still_while_the_status_does():
    """A new message or generation leaves lastTransitionTime, and the new values are there."""
    (condition,) = conditions.observed(status(GOOD), [BETTER], 7, NOW).conditions
    assert condition.last_transition_time == THEN
    assert condition.message == BETTER.message
    assert condition.observed_generation == 7


def test_time_moves_with_the_status():
    """A condition that flips carries the time of the flip."""
    (condition,) = conditions.observed(status(GOOD), [BAD], 1, NOW).conditions
    assert condition.last_transition_time == NOW


def test_nothing_new_makes_an_equal_status():
    """The same findings at a later time make the same status, so that there is nothing to write."""
    assert conditions.observed(status(GOOD), [GOOD], 1, NOW) == status(GOOD)


def test_a_new_generation_is_observed_even_if_nothing_else_changes():
    """Who waits for a change to be seen looks at observedGeneration."""
    assert conditions.observed(status(GOOD), [GOOD], 2, NOW).observed_generation == 2


def test_conditions_of_others_are_kept():
    """A condition type that we don't write stays as it was."""
    foreign = api.Condition(type="Audited", status="True", last_transition_time=THEN)
    before = api.ObservedStatus(conditions=[foreign])
    assert conditions.observed(before, [GOOD], 1, NOW).conditions[-1] is foreign


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (None, GOOD, []),
        (None, BAD, ["NoReadyEndpoints"]),
        (GOOD, BETTER, []),
        (GOOD, BAD, ["NoReadyEndpoints"]),
        (BAD, GOOD, ["EndpointsReady"]),
        (BAD, BAD._replace(reason="NoRules"), ["NoRules"]),
    ],
)
def test_news_is_a_change_of_status_or_reason(before, after, told):
    """Counting Pods is no news, a first good state is none either; what turns bad or good is."""
    previous = status(before) if before else None
    current = conditions.observed(previous, [after], 1, NOW)
    assert [each.reason for each in conditions.news(previous, current)] == told


def test_a_conflict_is_bad_while_it_is_true():
    """Unlike all other conditions: that a new object has no conflict is neither news nor a warning."""
    fine = conditions.Finding("Conflicted", False, "NoConflicts", "No other pool selects its Pods")
    shared = fine._replace(holds=True, reason="PodsShared")
    (now_fine,) = conditions.observed(None, [fine], 1, NOW).conditions
    current = conditions.observed(None, [shared], 1, NOW)
    assert conditions.is_good(now_fine)
    assert not conditions.is_good(current.conditions[0])
    assert conditions.news(None, conditions.observed(None, [fine], 1, NOW)) == []
    assert conditions.news(None, current) == current.conditions


def test_enumerations_say_how_much_they_leave_out():
    """Whole items as far as they fit, at least one, and the number of the rest."""
    assert conditions.enumerated(["a", "b"]) == "a, b"
    assert conditions.enumerated(["aaaa", "bbbb", "cccc"], limit=12) == "aaaa, bbbb and 1 more"
    assert conditions.enumerated(["a" * 20, "b"], limit=12) == "a" * 20 + " and 1 more"
