"""Each alert fires on series that show its problem, and not on those of a healthy fleet; the recording rules
add up gateways. Prometheus evaluates them over an hour of a series, in promtool."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

RULES = Path(__file__).parents[2] / "deploy" / "prometheus"
ALERTS, SIGNALS = RULES / "headgate-alerts.yaml", RULES / "headgate-signals.yaml"
FILES = [str(ALERTS), str(SIGNALS)]
AT = "45m"


@dataclass(frozen=True)
class Case:
    """Series of one alert, by name with labels: a value, or `+N` for a counter that grows by N a minute."""

    bad: dict[str, str]
    good: list[dict[str, str]]
    labels: dict[str, str]
    says: str


def total(name: str, label: str, **values: str) -> dict[str, str]:
    return {f'{name}{{model="m",pool="p",{label}="{key}"}}': value for key, value in values.items()}


def buckets(*grow: str) -> dict[str, str]:
    name = "headgate_gateway_time_to_first_token_seconds_bucket"
    bounds = ("1", "5", "10", "+Inf")
    return {f'{name}{{model="m",le="{bound}"}}': value for bound, value in zip(bounds, grow, strict=True)}


def gauge(name: str, bad: str, good: str, says: str, **labels: str) -> Case:
    """One gauge, whose labels the alert keeps."""
    series = name + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"
    return Case({series: bad}, [{series: good}], labels, says)


def binding(**values: str) -> dict[str, str]:
    name = "headgate_controller_autoscaling_replicas"
    return {f'{name}{{binding="a/b",instance="i",kind="{kind}"}}': value for kind, value in values.items()}


def controller(passes: str, leader: str) -> dict[str, str]:
    return {
        'headgate_controller_autoscaling_passes_total{instance="i"}': passes,
        'headgate_controller_leader{instance="i"}': leader,
        **binding(current="1"),
    }


def files(opened: str, workers: str) -> dict[str, str]:
    return {
        'process_open_fds{instance="i"}': opened,
        'process_max_fds{instance="i"}': "1000",
        'headgate_gateway_workers{instance="i"}': workers,
    }


def endpoints(number: str, starts_from_zero: str) -> dict[str, str]:
    return {
        'headgate_gateway_pool_endpoints{instance="i",pool="p"}': number,
        'headgate_gateway_pool_starts_from_zero{instance="i",pool="p"}': starts_from_zero,
    }


CASES = {
    "HeadgateNotReady": gauge("headgate_gateway_ready", "0", "1", "i takes no requests", instance="i"),
    "HeadgatePoolWithoutEndpoints": Case(
        endpoints("0", "0"),
        [endpoints("1", "0"), endpoints("0", "1")],
        {"instance": "i", "pool": "p"},
        "p has no ready endpoint: its requests get 503",
    ),
    "HeadgateStartIsSlow": Case(
        {'headgate_gateway_flow_control_waiting_for_endpoints{instance="i",pool="p"}': "3"},
        [{'headgate_gateway_flow_control_waiting_for_endpoints{instance="i",pool="p"}': "0"}],
        {"pool": "p"},
        "3 requests wait for p, which has had no ready endpoint for 10 minutes",
    ),
    "HeadgateServerErrors": Case(
        total("headgate_gateway_requests_total", "code", **{"200": "+90", "503": "+10"}),
        [total("headgate_gateway_requests_total", "code", **{"200": "+99", "429": "+20", "503": "+1"})],
        {"model": "m", "pool": "p"},
        "10% of the requests for m fail",
    ),
    "HeadgateBrokenStreams": Case(
        total("headgate_gateway_requests_total", "outcome", served="+98", upstream_lost="+2"),
        [total("headgate_gateway_requests_total", "outcome", served="+98", client_gone="+2")],
        {"pool": "p"},
        "2% of the answers of p break off",
    ),
    "HeadgatePoolSaturated": Case(
        total("headgate_gateway_requests_total", "outcome", served="+80", queue_timeout="+15", evicted="+5")
        | {'headgate_gateway_requests_total{model="n",pool="p",outcome="served"}': "+100"},
        [total("headgate_gateway_requests_total", "outcome", served="+80", rate_limit_exceeded="+20")],
        {"model": "m", "pool": "p"},
        "20% of the requests for m get 429: p has no capacity for them",
    ),
    "HeadgateSlowFirstToken": Case(
        buckets("+50", "+90", "+100", "+100"),
        [buckets("+99", "+100", "+100", "+100")],
        {"model": "m"},
        "1 of 20 streams of m begins later than 7.5s",
    ),
    "HeadgateEndpointsEjected": gauge(
        "headgate_gateway_pool_endpoints_ejected", "2", "0", "2 endpoints of p keep failing", pool="p"
    ),
    "HeadgateRetryBudgetSpent": Case(
        {'headgate_gateway_retries_total{granted="no",pool="p"}': "+1"},
        [{'headgate_gateway_retries_total{granted="yes",pool="p"}': "+1"}],
        {"pool": "p"},
        "p fails so often that requests are not tried again",
    ),
    "HeadgateObjectProblems": gauge(
        "headgate_gateway_object_problems",
        "3",
        "0",
        "3 parts of objects are not in use: see /debug/config on the admin port",
        instance="i",
    ),
    "HeadgateEnginesUnread": Case(
        {'headgate_gateway_endpoint_readings{state="stale"}': "2"},
        [{'headgate_gateway_endpoint_readings{state="fresh"}': "2"}],
        {"state": "stale"},
        "the metrics of 2 engines are stale: see /debug/endpoints",
    ),
    "HeadgateEnginesNotServed": Case(
        {'headgate_gateway_url_servers{instance="i",state="not_ready"}': "2"},
        [{'headgate_gateway_url_servers{instance="i",state="ready"}': "2"}],
        {"instance": "i", "state": "not_ready"},
        "2 engines that i knows by their URLs are not served: see /debug/objects on the admin port",
    ),
    "HeadgateObjectFilesInvalid": gauge(
        "headgate_gateway_objects_invalid_files",
        "1",
        "0",
        "1 files of objects of i have errors; their last valid versions are in effect",
        instance="i",
    ),
    "HeadgateCredentialsInvalid": gauge(
        "headgate_gateway_credentials_valid",
        "0",
        "1",
        "i cannot read its files of keys or tenants; what they said before is in effect",
        instance="i",
    ),
    "HeadgateProvidersInvalid": gauge(
        "headgate_gateway_providers_valid",
        "0",
        "1",
        "i cannot read its file of external providers; what it said before is in effect",
        instance="i",
    ),
    "HeadgateProviderUnusable": gauge(
        "headgate_gateway_provider_usable",
        "0",
        "1",
        "the external provider cloud of i takes nothing over: /debug/config on the admin port says why",
        instance="i",
        provider="cloud",
    ),
    "HeadgateOpen": gauge(
        "headgate_gateway_open",
        "1",
        "0",
        "everybody who reaches i may use it: it needs no credentials",
        instance="i",
    ),
    "HeadgateCertificateInvalid": gauge(
        "headgate_gateway_tls_certificate_valid",
        "0",
        "1",
        "the present certificate a.crt of i is not valid; the last valid one is served",
        instance="i",
        source="a.crt",
    ),
    "HeadgateCertificateExpires": gauge(
        "headgate_gateway_tls_certificate_expiry_timestamp_seconds",
        str(45 * 60 + 86400),
        str(45 * 60 + 8 * 86400),
        "the certificate a.crt of i expires in 1d 0h 0m 0s",
        instance="i",
        source="a.crt",
    ),
    "HeadgateLimitsNotShared": gauge(
        "headgate_gateway_limit_source_away",
        "1",
        "0",
        "i limits tokens by its own share: redis does not answer",
        instance="i",
        source="redis",
    ),
    "HeadgateConfigurationInvalid": gauge(
        "headgate_gateway_config_valid",
        "0",
        "1",
        "the new configuration of i is invalid; the one before is in effect",
        instance="i",
    ),
    "HeadgateWorkersRestart": gauge(
        "headgate_gateway_worker_restarts_total", "+1", "3", "workers of i keep ending", instance="i"
    ),
    "HeadgateAccessLogDropped": Case(
        {'headgate_gateway_access_log_lines_total{instance="i",result="dropped"}': "+5"},
        [{'headgate_gateway_access_log_lines_total{instance="i",result="written"}': "+5"}],
        {"instance": "i", "result": "dropped"},
        "nobody reads the access log of i fast enough",
    ),
    "HeadgateFilesRunOut": Case(
        files("900", workers="1"),
        [files("900", workers="2")],
        {"instance": "i"},
        "i has 90% of its files open",
    ),
    "HeadgateBindingNotReady": gauge(
        "headgate_controller_autoscaling_not_ready",
        "1",
        "0",
        "AutoscalingPolicyBinding a/b does not scale: MetricsMissing",
        binding="a/b",
        reason="MetricsMissing",
    ),
    "HeadgateMetricsMissing": gauge(
        "headgate_controller_autoscaling_metrics_missing",
        "2",
        "0",
        "a/b does not scale down: 2 of its metrics cannot be measured",
        binding="a/b",
    ),
    "HeadgateAtMaximum": Case(
        binding(current="6", recommended="9", maximum="6"),
        [binding(current="6", recommended="6", maximum="6"), binding(recommended="5", maximum="6")],
        {"binding": "a/b", "instance": "i"},
        "a/b would need 9 replicas, more than its maximum",
    ),
    "HeadgatePanic": gauge(
        "headgate_controller_autoscaling_panic", "1", "0", "a/b is in panic mode", binding="a/b"
    ),
    "HeadgateAutoscalingStopped": Case(
        controller(passes="7", leader="1"),
        [controller(passes="+60", leader="1"), controller(passes="7", leader="0")],
        {"instance": "i"},
        "i leads, but has not looked at any binding for minutes",
    ),
}


def rules() -> Iterator[dict[str, Any]]:
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        yield from group["rules"]


def series(given: dict[str, str]) -> list[dict[str, str]]:
    """In promtool's notation: an hour of samples, one each minute."""
    values = {name: f"0{value}x60" if value[0] == "+" else f"{value}x60" for name, value in given.items()}
    return [{"series": name, "values": value} for name, value in values.items()]


@pytest.fixture
def check(monitoring, tmp_path) -> Callable[..., str]:
    """What promtool tells about tests; empty if they pass."""

    def run(*tests: dict[str, Any]) -> str:
        file = tmp_path / "tests.json"
        file.write_text(json.dumps({"rule_files": FILES, "evaluation_interval": "1m", "tests": list(tests)}))
        words = [monitoring["promtool"], "test", "rules", file]
        done = subprocess.run(words, capture_output=True, text=True)
        assert ("SUCCESS" in done.stdout) == (done.returncode == 0), done.stdout + done.stderr
        return "" if done.returncode == 0 else done.stdout + done.stderr

    return run


def test(alert: str, given: dict[str, str], *fired: dict[str, Any]) -> dict[str, Any]:
    """That an alert has fired, or not, after most of the hour."""
    expected = {"eval_time": AT, "alertname": alert, "exp_alerts": list(fired)}
    return {"name": alert, "interval": "1m", "input_series": series(given), "alert_rule_test": [expected]}


test.__test__ = False  # type: ignore[attr-defined]


def fired(alert: str, case: Case) -> dict[str, Any]:
    [severity] = [rule["labels"]["severity"] for rule in rules() if rule["alert"] == alert]
    return {
        "exp_labels": {**case.labels, "severity": severity},
        "exp_annotations": {"summary": case.says},
    }


def test_each_alert_has_a_case():
    assert sorted(CASES) == sorted(rule["alert"] for rule in rules())


def test_alerts_fire_on_their_problems_alone(check):
    """With these labels and words."""
    bad = [test(alert, case.bad, fired(alert, case)) for alert, case in CASES.items()]
    good = [test(alert, given) for alert, case in CASES.items() for given in case.good]
    assert check(*bad, *good) == ""


def test_another_outcome_would_be_found(check):
    for alert, case in list(CASES.items())[:2]:
        assert "FAILED" in check(test(alert, case.bad))
        assert "FAILED" in check(test(alert, case.good[0], fired(alert, case)))


def test_short_problems_do_not_fire(check):
    """An alert waits: here two minutes."""
    name = 'headgate_gateway_ready{instance="i"}'
    brief = {"series": name, "values": "1x43 0x1 1x20"}
    assert check({**test("HeadgateNotReady", {}), "input_series": [brief]}) == ""


def test_signals_of_pools_are_those_of_all_gateways(check):
    """Their labels name the object that the pool is."""
    server, pool, other = "team-a/chat", "InferencePool/team-a/chat", "team-b/chat"
    missed, met = ('result="missed"', "+1"), ('result="met"', "+3")
    given = {
        f'headgate_gateway_pool_work_seconds{{pool="{server}",instance="1",namespace="gateways"}}': "0.5",
        f'headgate_gateway_pool_work_seconds{{pool="{server}",instance="2",namespace="gateways"}}': "1.25",
        f'headgate_gateway_pool_work_seconds{{pool="{pool}",instance="1"}}': "7",
        f'headgate_gateway_active_requests{{pool="{other}",instance="1"}}': "4",
        f'headgate_gateway_pool_requests_running{{pool="{server}",instance="1"}}': "3",
        f'headgate_gateway_pool_requests_waiting{{pool="{server}",instance="1"}}': "2",
        f'headgate_gateway_pool_arrivals_total{{pool="{server}",instance="1"}}': "+60",
        f'headgate_gateway_pool_arrivals_total{{pool="{server}",instance="2"}}': "+120",
        f'headgate_gateway_pool_prompt_tokens_total{{pool="{server}",instance="1"}}': "+6000",
        f'headgate_gateway_pool_cached_prompt_tokens_total{{pool="{server}",instance="1"}}': "+1500",
        f'headgate_gateway_pool_output_tokens_total{{pool="{server}",instance="1"}}': "+3000",
        f'headgate_gateway_pool_kv_usage_ratio{{pool="{server}",instance="1"}}': "0.25",
        f'headgate_gateway_pool_kv_usage_ratio{{pool="{server}",instance="2"}}': "0.75",
        f'headgate_gateway_pool_first_token_seconds_total{{pool="{server}",instance="1"}}': "+3",
        f'headgate_gateway_pool_first_token_seconds_total{{pool="{server}",instance="2"}}': "+12",
        f'headgate_gateway_pool_timed_requests_total{{pool="{server}",instance="1"}}': "+30",
        f'headgate_gateway_pool_timed_requests_total{{pool="{server}",instance="2"}}': "+30",
        f'headgate_gateway_pool_inter_token_seconds_total{{pool="{server}",instance="1"}}': "+60",
        f'headgate_gateway_pool_timed_tokens_total{{pool="{server}",instance="1"}}': "+3000",
        f'headgate_gateway_pool_timed_tokens_total{{pool="{other}",instance="1"}}': "0",
        **{
            f'headgate_gateway_pool_first_token_objectives_total{{pool="{server}",{label}}}': value
            for label, value in (missed, met)
        },
    }
    of_server = f'namespace="team-a",modelserver="chat",pool="{server}"'
    expected = {
        f"headgate:work_seconds{{{of_server}}}": 1.75,
        f'headgate:work_seconds{{namespace="team-a",inferencepool="chat",pool="{pool}"}}': 7,
        f'headgate:requests_in_flight{{namespace="team-b",modelserver="chat",pool="{other}"}}': 4,
        f"headgate:requests_running{{{of_server}}}": 3,
        f"headgate:requests_waiting{{{of_server}}}": 2,
        f"headgate:arrivals{{{of_server}}}": 6,
        f"headgate:prompt_tokens{{{of_server}}}": 200,
        f"headgate:cached_tokens{{{of_server}}}": 50,
        f"headgate:output_tokens{{{of_server}}}": 100,
        f"headgate:kv_usage{{{of_server}}}": 0.5,
        f"headgate:slo_misses{{{of_server}}}": 0.25,
        f"headgate:ttft_seconds{{{of_server}}}": 0.25,
        f"headgate:itl_seconds{{{of_server}}}": 0.02,
    }
    samples = [{"labels": labels, "value": value} for labels, value in expected.items()]
    asked = {"expr": '{__name__=~"headgate:.+"}', "eval_time": "20m", "exp_samples": samples}
    recorded = {"interval": "30s", "input_series": series(given), "promql_expr_test": [asked]}
    assert check(recorded) == ""
