"""The last replica goes when nothing was asked for a while, and comes back for the first request."""

from headgate.autoscaling import (
    Bounds,
    Decision,
    History,
    MetricTarget,
    Observation,
    Policy,
    Rate,
    Total,
    decide,
)

POLICY = Policy((MetricTarget("load", 1.0),), down=Rate(window_s=300))
BOUNDS = Bounds(0, 10, zero_after_s=30)
NOW = 10_000.0


def decided(
    current: int,
    *,
    load: float | None = 0.0,
    idle_s: float | None = None,
    wanted: bool = False,
    bounds: Bounds = BOUNDS,
    policy: Policy = POLICY,
) -> Decision:
    observation = Observation(
        NOW,
        current,
        current,
        totals={} if load is None else {"load": Total(load)},
        idle_since=None if idle_s is None else NOW - idle_s,
        is_wanted=wanted,
    )
    return decide(policy, bounds, History.empty(), observation)[0]


def test_the_last_replica_goes_after_the_grace_period() -> None:
    early = decided(1, idle_s=29)
    assert (early.desired, early.held_until) == (1, NOW + 1)
    decision = decided(1, idle_s=30)
    assert (decision.desired, decision.rule) == (0, "Zero")
    assert decision.message.endswith("no request came for the grace period.")


def test_what_nobody_knows_is_not_idle() -> None:
    assert decided(1, idle_s=None).desired == 1
    assert decided(1, idle_s=None, load=None).desired == 1


def test_idleness_needs_no_metric() -> None:
    assert decided(1, idle_s=60, load=None).desired == 0


def test_without_a_grace_period_one_replica_stays() -> None:
    assert decided(1, idle_s=9_999, bounds=Bounds(0, 10)).desired == 1


def test_a_minimum_above_zero_stays() -> None:
    assert decided(2, idle_s=9_999, bounds=Bounds(2, 10, zero_after_s=30)).desired == 2


def test_the_grace_period_replaces_the_window_but_not_the_rate() -> None:
    assert decided(4, idle_s=60).desired == 0
    slow = POLICY._replace(down=Rate(instances=1, percent=0, period_s=60, window_s=300))
    decision = decided(4, idle_s=60, policy=slow)
    assert (decision.desired, decision.rule) == (3, "Rate")


def test_at_zero_it_stays_until_a_request_waits() -> None:
    stays = decided(0, load=None, idle_s=60)
    assert (stays.desired, stays.rule) == (0, "Zero")
    assert decided(0, load=None).desired == 0
    wakes = decided(0, load=None, wanted=True)
    assert (wakes.desired, wakes.rule) == (1, "Waking")
    assert wakes.message == "Scale up from 0 to 1 replica: a request waits."


def test_a_target_wakes_whatever_its_rate_is() -> None:
    frozen = POLICY._replace(up=Rate(instances=0, percent=100))
    assert decided(0, load=3.0, wanted=True, policy=frozen).desired == 1


def test_a_waiting_request_is_not_idleness() -> None:
    assert decided(1, idle_s=60, wanted=True).desired == 1


def test_requests_that_wait_at_zero_ask_for_replicas_as_a_metric() -> None:
    assert decided(0, load=2.5, policy=POLICY._replace(up=Rate(instances=4))).desired == 3
