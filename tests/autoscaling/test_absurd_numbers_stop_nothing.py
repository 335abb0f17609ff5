"""Whatever Pods, queries and policies say, a pass ends with replicas within the bounds."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.api.kthena_registry import AutoscalingPolicySpec
from headgate.autoscaling import (
    Bounds,
    History,
    MetricTarget,
    Observation,
    Param,
    PodSample,
    Policy,
    Total,
    compile_policy,
    decide,
    split,
)
from headgate.autoscaling.histograms import Bucket, HistogramError, merged, quantile

numbers = st.floats() | st.sampled_from([0.0, 1.0, 1e300, 1e308, -1e308, 5e-324, math.inf, math.nan])
targets = st.floats(min_value=1e-9, max_value=1e308)


@given(st.lists(numbers, max_size=4), numbers, targets, st.booleans())
def test_the_bounds_hold(of_pods: list[float], of_query: float, target: float, is_ratio: bool) -> None:
    """Also when values add up to more than a float can be."""
    policy = Policy((MetricTarget("load", target), MetricTarget("query", target)))
    pods = [PodSample(f"p{index}", True, {"load": value}) for index, value in enumerate(of_pods)]
    observation = Observation(1e9, 4, 4, pods, {"query": Total(of_query, is_ratio)})
    decision, history = decide(policy, Bounds(1, 9), History.empty(), observation)
    assert 1 <= decision.desired <= 9
    assert History.from_json(history.to_json()) == history
    params = [Param("a", Bounds(1, 9), 1, 1, 1, pods[:1]), Param("b", Bounds(0, 9), 2, 3, 3, pods[1:])]
    found, history = split(policy, params, History.empty(), observation)
    assert 1 <= found.decision.desired <= 18
    assert History.from_json(history.to_json()) == history


def test_counts_that_are_not_finite_together_are_an_error() -> None:
    """Which Pods are then measured each by itself."""
    buckets = [Bucket(1.0, 1e308), Bucket(math.inf, 1e308)]
    assert 0 < quantile(buckets, 0.95) <= 1
    with pytest.raises(HistogramError, match="is not finite"):
        quantile(merged([buckets, buckets]), 0.95)


@pytest.mark.parametrize("value", ["0", "-1", "1e400", "9" * 400])
def test_a_target_that_cannot_be_reached_is_an_error(value: str) -> None:
    """It would divide by 0, or take any load for none."""
    spec = {"metrics": [{"metricName": "fine", "targetValue": 1}, {"metricName": "m", "targetValue": value}]}
    with pytest.raises(ValueError, match=rf"metrics\[1\].targetValue is {value[:9]}.*above 0"):
        compile_policy(msgspec.convert(spec, AutoscalingPolicySpec))
