"""Of the objects that decide about one workload, the oldest does; any order of changes ends the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.controllers.autoscaling.claims import Claimant, Claims
from headgate.controllers.autoscaling.workloads import Workload

WEB, APP = Workload("n", "Deployment", "web"), Workload("n", "Deployment", "app")
OLD = Claimant("AutoscalingPolicyBinding", "n", "z", "2026-01-01T00:00:00Z")
NEW = Claimant("AutoscalingPolicyBinding", "n", "a", "2026-01-01T00:00:01Z")
HORIZONTAL = Claimant("HorizontalPodAutoscaler", "n", "h", "2026-01-01T00:00:02Z")


def test_the_older_one_holds_a_workload():
    """Whichever came first, and until it is gone."""
    claims = Claims()
    assert claims.put(NEW, [WEB]) == {WEB}
    assert claims.holder(WEB) == NEW
    assert claims.put(OLD, [WEB, APP]) == {WEB, APP}
    assert claims.holder(WEB) == OLD
    assert claims.on(WEB) == [OLD, NEW]
    assert claims.put(OLD, []) == {WEB, APP}
    assert claims.holder(WEB) == NEW
    assert claims.holder(APP) is None


def test_one_that_nobody_can_stop_holds_it_once_it_acts():
    """A younger HorizontalPodAutoscaler counts only then."""
    claims = Claims()
    claims.put(OLD, [WEB])
    claims.put(HORIZONTAL, [WEB])
    assert claims.holder(WEB) == OLD
    acting = HORIZONTAL._replace(is_unstoppable=True)
    assert claims.put(acting, [WEB]) == {WEB}
    assert claims.holder(WEB) == acting


def test_the_same_claim_again_changes_nothing():
    """So that nobody is looked at for it."""
    claims = Claims()
    claims.put(OLD, [WEB])
    assert claims.put(OLD, [WEB]) == set()


changes = st.lists(
    st.tuples(
        st.sampled_from([OLD, NEW, HORIZONTAL, HORIZONTAL._replace(is_unstoppable=True)]),
        st.sets(st.sampled_from([WEB, APP])),
    ),
    max_size=12,
)


@given(changes)
def test_any_order_of_changes_ends_the_same(steps):
    """What is held depends on the last claim of each object alone."""
    claims = Claims()
    last = {}
    for claimant, on in steps:
        claims.put(claimant, on)
        last[claimant.id] = (claimant, on)
    for workload in (WEB, APP):
        wanting = [claimant for claimant, on in last.values() if workload in on]
        expected = min(wanting, key=lambda each: each.precedence, default=None)
        assert claims.holder(workload) == expected
