"""An AutoscalingPolicy becomes seconds and floats, with the defaults that a schema cannot express."""

import msgspec

from headgate.api.admission import autoscaling
from headgate.api.kthena_registry import AutoscalingPolicySpec
from headgate.autoscaling import MetricTarget, Panic, Policy, Rate, compile_policy


def compiled(spec: dict[str, object], *, admitted: bool = False) -> Policy:
    if admitted:
        autoscaling.default_spec(spec)
    return compile_policy(msgspec.convert(spec, AutoscalingPolicySpec))


def test_everything_has_a_default() -> None:
    spec = {"metrics": [{"metricName": "load", "targetValue": "500m"}]}
    expected = Policy((MetricTarget("load", 0.5),), 10.0, Rate(), Rate(window_s=300.0), None)
    assert compiled(spec) == expected
    assert compiled(spec, admitted=True) == expected, "with and without the API server's defaults"


def test_every_field_counts() -> None:
    stable = {
        "instances": 4,
        "percent": 50,
        "period": "1m",
        "selectPolicy": "And",
        "stabilizationWindow": "30s",
    }
    panic = {"percent": 200, "period": "1m30s", "panicThresholdPercent": 150, "panicModeHold": "2m"}
    spec = {
        "tolerancePercent": 5,
        "metrics": [{"metricName": "a", "targetValue": 3}, {"metricName": "b", "targetValue": "2k"}],
        "behavior": {
            "scaleUp": {"stablePolicy": stable, "panicPolicy": panic},
            "scaleDown": stable | {"stabilizationWindow": "0s"},
        },
    }
    assert compiled(spec) == Policy(
        (MetricTarget("a", 3.0), MetricTarget("b", 2000.0)),
        5.0,
        Rate(4, 50, 60.0, "And", 30.0),
        Rate(4, 50, 60.0, "And", 0.0),
        Panic(200, 90.0, 150, 120.0),
    )
