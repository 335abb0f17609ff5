"""The alerts of Prometheus. The thresholds are for users to change."""

from __future__ import annotations

from typing import Final, NamedTuple

from queries import (
    BROKEN_STREAMS,
    CERTIFICATE_DAYS,
    DROPPED,
    MOST_BROKEN_STREAMS,
    MOST_DROPPED,
    MOST_SERVER_ERRORS,
    SERVER_ERRORS,
    SLOW_FIRST_TOKEN_S,
    WAIT_FOR_START,
    first_token,
    in_rule,
)


class Alert(NamedTuple):
    name: str
    expr: str
    lasts: str
    """How long before it fires; empty: at once."""
    severity: str
    summary: str


GROUPS: Final = {
    "headgate-gateway": (
        Alert(
            "HeadgateNotReady",
            "headgate_gateway_ready == 0",
            "2m",
            "critical",
            "{{ $labels.instance }} takes no requests",
        ),
        Alert(
            "HeadgatePoolWithoutEndpoints",
            "headgate_gateway_pool_endpoints == 0\n"
            "unless on (instance, pool) headgate_gateway_pool_starts_from_zero == 1",
            "2m",
            "critical",
            "{{ $labels.pool }} has no ready endpoint: its requests get 503",
        ),
        Alert(
            "HeadgateStartIsSlow",
            f"{in_rule(WAIT_FOR_START)} > 0",
            "10m",
            "critical",
            "{{ $value }} requests wait for {{ $labels.pool }}, which has had no ready endpoint for 10 "
            "minutes",
        ),
        Alert(
            "HeadgateServerErrors",
            f"{in_rule(SERVER_ERRORS)} > {MOST_SERVER_ERRORS}",
            "5m",
            "critical",
            "{{ $value | humanizePercentage }} of the requests for {{ $labels.model }} fail",
        ),
        Alert(
            "HeadgateBrokenStreams",
            f"{in_rule(BROKEN_STREAMS)} > {MOST_BROKEN_STREAMS}",
            "5m",
            "warning",
            "{{ $value | humanizePercentage }} of the answers of {{ $labels.pool }} break off",
        ),
        Alert(
            "HeadgatePoolSaturated",
            f"{in_rule(DROPPED)} > {MOST_DROPPED}",
            "5m",
            "warning",
            "{{ $value | humanizePercentage }} of the requests for {{ $labels.model }} get 429: "
            "{{ $labels.pool }} has no capacity for them",
        ),
        Alert(
            "HeadgateSlowFirstToken",
            f"{in_rule(first_token(0.95))} > {SLOW_FIRST_TOKEN_S}",
            "10m",
            "warning",
            "1 of 20 streams of {{ $labels.model }} begins later than {{ $value | humanizeDuration }}",
        ),
        Alert(
            "HeadgateEndpointsEjected",
            "headgate_gateway_pool_endpoints_ejected > 0",
            "5m",
            "warning",
            "{{ $value }} endpoints of {{ $labels.pool }} keep failing",
        ),
        Alert(
            "HeadgateRetryBudgetSpent",
            'sum by (pool) (rate(headgate_gateway_retries_total{granted="no"}[5m])) > 0',
            "5m",
            "warning",
            "{{ $labels.pool }} fails so often that requests are not tried again",
        ),
        Alert(
            "HeadgateObjectProblems",
            "headgate_gateway_object_problems > 0",
            "10m",
            "warning",
            "{{ $value }} parts of objects are not in use: see /debug/config on the admin port",
        ),
        Alert(
            "HeadgateEnginesUnread",
            'headgate_gateway_endpoint_readings{state=~"stale|missing"} > 0',
            "5m",
            "warning",
            "the metrics of {{ $value }} engines are {{ $labels.state }}: see /debug/endpoints",
        ),
        Alert(
            "HeadgateEnginesNotServed",
            'headgate_gateway_url_servers{state="not_ready"} > 0',
            "5m",
            "warning",
            "{{ $value }} engines that {{ $labels.instance }} knows by their URLs are not served: see "
            "/debug/objects on the admin port",
        ),
        Alert(
            "HeadgateObjectFilesInvalid",
            "headgate_gateway_objects_invalid_files > 0",
            "1m",
            "warning",
            "{{ $value }} files of objects of {{ $labels.instance }} have errors; their last valid versions "
            "are in effect",
        ),
        Alert(
            "HeadgateCredentialsInvalid",
            "headgate_gateway_credentials_valid == 0",
            "1m",
            "warning",
            "{{ $labels.instance }} cannot read its files of keys or tenants; what they said before is in "
            "effect",
        ),
        Alert(
            "HeadgateProvidersInvalid",
            "headgate_gateway_providers_valid == 0",
            "1m",
            "warning",
            "{{ $labels.instance }} cannot read its file of external providers; what it said before is in "
            "effect",
        ),
        Alert(
            "HeadgateProviderUnusable",
            "headgate_gateway_provider_usable == 0",
            "1m",
            "warning",
            "the external provider {{ $labels.provider }} of {{ $labels.instance }} takes nothing over: "
            "/debug/config on the admin port says why",
        ),
        Alert(
            "HeadgateOpen",
            "headgate_gateway_open == 1",
            "1m",
            "warning",
            "everybody who reaches {{ $labels.instance }} may use it: it needs no credentials",
        ),
        Alert(
            "HeadgateCertificateInvalid",
            "headgate_gateway_tls_certificate_valid == 0",
            "1m",
            "warning",
            "the present certificate {{ $labels.source }} of {{ $labels.instance }} is not valid; the last "
            "valid one is served",
        ),
        Alert(
            "HeadgateCertificateExpires",
            "headgate_gateway_tls_certificate_expiry_timestamp_seconds - time()\n"
            f"< {CERTIFICATE_DAYS} * 86400",
            "",
            "critical",
            "the certificate {{ $labels.source }} of {{ $labels.instance }} expires in "
            "{{ $value | humanizeDuration }}",
        ),
        Alert(
            "HeadgateLimitsNotShared",
            "headgate_gateway_limit_source_away > 0",
            "1m",
            "warning",
            "{{ $labels.instance }} limits tokens by its own share: {{ $labels.source }} does not answer",
        ),
        Alert(
            "HeadgateConfigurationInvalid",
            "headgate_gateway_config_valid == 0",
            "1m",
            "warning",
            "the new configuration of {{ $labels.instance }} is invalid; the one before is in effect",
        ),
        Alert(
            "HeadgateWorkersRestart",
            "increase(headgate_gateway_worker_restarts_total[10m]) > 3",
            "",
            "critical",
            "workers of {{ $labels.instance }} keep ending",
        ),
        Alert(
            "HeadgateAccessLogDropped",
            'increase(headgate_gateway_access_log_lines_total{result="dropped"}[10m]) > 0',
            "",
            "warning",
            "nobody reads the access log of {{ $labels.instance }} fast enough",
        ),
        Alert(
            "HeadgateFilesRunOut",
            "process_open_fds / on (instance)\n"
            "(process_max_fds * on (instance) sum by (instance) (headgate_gateway_workers)) > 0.8",
            "5m",
            "warning",
            "{{ $labels.instance }} has {{ $value | humanizePercentage }} of its files open",
        ),
    ),
    "headgate-autoscaling": (
        Alert(
            "HeadgateBindingNotReady",
            "headgate_controller_autoscaling_not_ready > 0",
            "5m",
            "warning",
            "AutoscalingPolicyBinding {{ $labels.binding }} does not scale: {{ $labels.reason }}",
        ),
        Alert(
            "HeadgateMetricsMissing",
            "headgate_controller_autoscaling_metrics_missing > 0",
            "5m",
            "warning",
            "{{ $labels.binding }} does not scale down: {{ $value }} of its metrics cannot be measured",
        ),
        Alert(
            "HeadgateAtMaximum",
            'headgate_controller_autoscaling_replicas{kind="recommended"}\n'
            '> ignoring (kind) headgate_controller_autoscaling_replicas{kind="maximum"}',
            "15m",
            "warning",
            "{{ $labels.binding }} would need {{ $value }} replicas, more than its maximum",
        ),
        Alert(
            "HeadgatePanic",
            "headgate_controller_autoscaling_panic > 0",
            "15m",
            "warning",
            "{{ $labels.binding }} is in panic mode",
        ),
        Alert(
            "HeadgateAutoscalingStopped",
            "rate(headgate_controller_autoscaling_passes_total[10m]) == 0\n"
            "and on (instance) headgate_controller_leader == 1\n"
            "and on (instance) count by (instance) (headgate_controller_autoscaling_replicas) > 0",
            "5m",
            "critical",
            "{{ $labels.instance }} leads, but has not looked at any binding for minutes",
        ),
    ),
}
