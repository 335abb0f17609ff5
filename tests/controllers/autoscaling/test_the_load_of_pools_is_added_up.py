"""What gateways tell of several pools becomes totals; what is not known never scales down."""

from __future__ import annotations

import pytest

from headgate.autoscaling import MetricTarget, Policy, Total
from headgate.controllers.autoscaling.observing import load_of
from headgate.observe.signals import PoolLoad

WORK, USAGE = "headgate:work_seconds", "headgate:kv_usage"
POLICY = Policy((MetricTarget(WORK, 1.0), MetricTarget(USAGE, 0.8)))


def known(work: float, usage: float | None = None, idle_s: float | None = None) -> PoolLoad:
    metrics = {WORK: work} | ({USAGE: usage} if usage is not None else {})
    return PoolLoad(is_known=True, metrics=metrics, idle_s=idle_s)


def test_sums_add_up_and_ratios_do_not():
    """Two pools reach one workload: its engines have one KV cache."""
    load = load_of(POLICY, 3, [(known(2.0, 0.5), 1.0), (known(1.0, 0.6), 1.0)])
    assert load.totals == {WORK: Total(3.0), USAGE: Total(0.6, is_ratio=True)}


def test_a_pool_of_several_workloads_is_shared():
    """By the part of its ready Pods."""
    assert load_of(POLICY, 3, [(known(8.0), 0.25)]).totals[WORK] == Total(2.0)


def test_a_gateway_that_is_silent_can_only_mean_more():
    """What the others tell counts where it asks for more replicas than there are."""
    partial = PoolLoad(is_known=False, lower_bounds={WORK: 2.5}, missing=("it is not ready",))
    assert load_of(POLICY, 2, [(partial, 1.0)]).totals == {WORK: Total(2.5)}
    load = load_of(POLICY, 3, [(partial, 1.0)])
    assert load.totals == {}
    assert load.missing == ("it is not ready",)


@pytest.mark.parametrize(
    ("idle", "expected"), [([5.0, 9.0], 5.0), ([5.0, None], None), ([None, None], None), ([], None)]
)
def test_all_pools_have_to_be_idle(idle, expected):
    """Since the last request to any of them."""
    assert load_of(POLICY, 1, [(known(0.0, idle_s=each), 1.0) for each in idle]).idle_s == expected


def test_a_request_that_waits_at_any_pool_wants_a_replica():
    """Also if not all gateways tell."""
    waits = PoolLoad(is_known=False, waiting_for_endpoints=1)
    assert load_of(POLICY, 0, [(known(0.0, idle_s=1.0), 1.0), (waits, 1.0)]).is_wanted
    assert not load_of(POLICY, 0, [(known(0.0, idle_s=1.0), 1.0)]).is_wanted


def test_without_a_pool_it_says_so():
    """Nothing that gateways tell is about this workload."""
    assert "selects the Pods" in load_of(POLICY, 1, []).missing[0]
