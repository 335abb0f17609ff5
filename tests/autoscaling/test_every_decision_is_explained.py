"""The sentence that people read, for each rule."""

import pytest

from headgate.autoscaling import (
    Bounds,
    Decision,
    History,
    MetricTarget,
    Observation,
    Panic,
    PodSample,
    Policy,
    Rate,
    Total,
    decide,
)
from headgate.autoscaling.forecast import Forecast, Score
from headgate.autoscaling.starting import Starts

POLICY = Policy((MetricTarget("work", 8.0),))
TWO = POLICY._replace(metrics=(MetricTarget("work", 8.0), MetricTarget("other", 1.0)))
ONE_TO_TEN = Bounds(1, 10)
NOW = 10_000.0


def decided(
    policy: Policy,
    current: int,
    work: float | None,
    *,
    bounds: Bounds = ONE_TO_TEN,
    history: History | None = None,
    pods: tuple[PodSample, ...] = (),
    idle_since: float | None = None,
    wanted: bool = False,
) -> Decision:
    totals = {} if work is None else {"work": Total(work)}
    observation = Observation(NOW, current, current, pods, totals, idle_since, wanted)
    return decide(policy, bounds, history or History.empty(), observation)[0]


POD = PodSample("a", True, {"work": 24.0})
RISING = History(
    starts=Starts(durations_s=(120.0,)),
    forecast=Forecast(at=NOW - 15, level=3.0, slope=0.01, trend=Score(0.5, 1.0, 20, True)),
)
CASES = {
    "": (decided(POLICY, 3, 41.2), "Scale up from 3 to 6 replicas: work is 41.2 in total, which needs 5.15"),
    " of what rounds up to the same": (
        decided(POLICY, 6, 45),
        "Stay at 6 replicas: {}, which needs 5.62 at 8 each.",
    ),
    "Tolerance": (decided(POLICY, 6, 49), "Stay at 6 replicas: {}; the change is within the tolerance."),
    "NotReady": (
        decided(POLICY, 5, None, pods=(POD, POD._replace(is_ready=False))),
        "Stay at 5 replicas: work is 24 in total, which needs 3 at 8 each, with 3 not measured; replicas are "
        "still starting.",
    ),
    "MetricMissing": (decided(POLICY, 6, None), "Stay at 6 replicas: no metric could be measured."),
    "MetricMissing of another": (
        decided(TWO, 6, 8.0),
        "Stay at 6 replicas: {}; another metric could not be measured, so no replica is removed.",
    ),
    "MetricMissing of Pods": (
        decided(POLICY, 5, None, pods=(POD,)),
        "Stay at 5 replicas: {}; what was not measured could change the direction.",
    ),
    "StabilizationWindow": (
        decided(POLICY, 6, 12),
        "Stay at 6 replicas: {}; 2 recommended, but more within the stabilization window.",
    ),
    "StabilizationWindow up": (
        decided(POLICY._replace(up=Rate(window_s=60)), 6, 72),
        "Stay at 6 replicas: {}; 9 recommended, but fewer within the stabilization window.",
    ),
    "Rate": (
        decided(POLICY._replace(up=Rate(1, 0)), 2, 80),
        "Scale up from 2 to 3 replicas: {}; 10 recommended, but the rate allows 3 for now.",
    ),
    "Panic": (
        decided(POLICY._replace(panic=Panic(percent=50, period_s=60)), 2, 80),
        "Scale up from 2 to 3 replicas: {}; 10 recommended, but panic mode allows 3 for now.",
    ),
    "Panic down": (
        decided(POLICY._replace(panic=Panic()), 2, 0, history=History(panic_until=NOW + 9)),
        "Stay at 2 replicas: {}; panic mode removes no replica.",
    ),
    "Minimum": (decided(POLICY, 1, 0), "Stay at 1 replica: {}; 0 recommended, but the minimum is 1."),
    "Maximum": (
        decided(POLICY, 9, 90),
        "Scale up from 9 to 10 replicas: {}; 12 recommended, but the maximum",
    ),
    "Maximum without metrics": (
        decided(POLICY, 12, None),
        "Scale down from 12 to 10 replicas: the maximum is 10.",
    ),
    "Rate by far": (
        decided(POLICY, 3, 98_765, bounds=Bounds(1, 99_999)),
        "Scale up from 3 to 6 replicas: work is 98765 in total, which needs 12346 at 8 each; 12346",
    ),
    "Forecast": (
        decided(POLICY, 3, 24, history=RISING),
        "Scale up from 3 to 5 replicas: {}; by the trend, 4.",
    ),
    "Zero": (
        decided(POLICY, 2, 0, bounds=Bounds(0, 9, 30), idle_since=NOW - 30),
        "Scale down from 2 to 0 replicas: {}; no request came for the grace period.",
    ),
    "Zero not yet": (
        decided(POLICY, 1, 0, bounds=Bounds(0, 9, 30), idle_since=NOW - 9),
        "Stay at 1 replica: {}; the last replica goes only after the grace period without requests.",
    ),
    "Zero already": (decided(POLICY, 0, None, bounds=Bounds(0, 9)), "Stay at 0 replicas: no request waits."),
    "Waking": (
        decided(POLICY, 0, None, bounds=Bounds(0, 9), wanted=True),
        "Scale up from 0 to 1 replica: a request waits.",
    ),
    "Waking as measured": (
        decided(POLICY, 0, 0.01, bounds=Bounds(0, 9), wanted=True),
        "Scale up from 0 to 1 replica: {}; a request waits.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_rule_and_the_sentence(case: str) -> None:
    decision, expected = CASES[case]
    assert decision.rule == case.split(" ")[0]
    first, _, rest = expected.partition("{}")
    assert decision.message.startswith(first)
    assert rest in decision.message
    assert decision.message.endswith(".")
    assert decision.message.count(". ") == 0, "one sentence"
