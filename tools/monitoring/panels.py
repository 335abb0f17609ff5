"""The panels of the dashboard for Grafana, row by row."""

from __future__ import annotations

from typing import Final, NamedTuple

from queries import (
    BROKEN_STREAMS,
    DROPPED,
    MOST_BROKEN_STREAMS,
    MOST_DROPPED,
    MOST_SERVER_ERRORS,
    SERVER_ERRORS,
    SLOW_FIRST_TOKEN_S,
    WAIT_FOR_START,
    first_token,
    quantile,
)


class Panel(NamedTuple):
    title: str
    unit: str
    """Of Grafana."""
    queries: tuple[tuple[str, str], ...]
    """Each with the name of its lines."""
    most: float | None = None
    """The end of the axis."""
    threshold: float | None = None
    """Of the alert about the same query."""


ROWS: Final = {
    "Requests": (
        Panel(
            "Requests by outcome",
            "reqps",
            (("sum by (outcome) (rate(headgate_gateway_requests_total{~}[~]))", "{{outcome}}"),),
        ),
        Panel(
            "Server errors by model",
            "percentunit",
            ((SERVER_ERRORS, "{{model}}, {{pool}}"),),
            threshold=MOST_SERVER_ERRORS,
        ),
        Panel(
            "Responses that break off",
            "percentunit",
            ((BROKEN_STREAMS, "{{pool}}"),),
            threshold=MOST_BROKEN_STREAMS,
        ),
        Panel(
            "Requests in progress",
            "short",
            (
                ("sum by (pool) (headgate_gateway_active_requests{~})", "{{pool}}"),
                ("sum by (pool) (headgate_gateway_active_streams{~})", "{{pool}}, streams"),
            ),
        ),
        Panel(
            "Tokens",
            "short",
            (
                (
                    "sum by (model, direction) (rate(headgate_gateway_tokens_total{~}[~]))",
                    "{{model}}, {{direction}}",
                ),
            ),
        ),
    ),
    "Latency": (
        Panel(
            "Time to first token",
            "s",
            (
                (first_token(0.5), "{{model}}, median"),
                (first_token(0.95), "{{model}}, 95 %"),
            ),
            threshold=SLOW_FIRST_TOKEN_S,
        ),
        Panel(
            "Time per output token",
            "s",
            (
                (
                    quantile(0.5, "model", "headgate_gateway_time_per_output_token_seconds"),
                    "{{model}}, median",
                ),
                (
                    quantile(0.95, "model", "headgate_gateway_time_per_output_token_seconds"),
                    "{{model}}, 95 %",
                ),
            ),
        ),
        Panel(
            "Duration of requests",
            "s",
            (
                (
                    quantile(0.95, "model", "headgate_gateway_request_duration_seconds"),
                    "{{model}}, 95 %",
                ),
            ),
        ),
        Panel(
            "Error of predicted first tokens",
            "s",
            (
                (
                    quantile(0.5, "pool", "headgate_gateway_first_token_error_seconds"),
                    "{{pool}}, median",
                ),
            ),
        ),
    ),
    "Queues": (
        Panel(
            "Queued requests",
            "short",
            (
                (
                    "sum by (pool, priority) (headgate_gateway_flow_control_queue_size{~})",
                    "{{pool}}, priority {{priority}}",
                ),
            ),
        ),
        Panel(
            "Saturation of pools",
            "short",
            (('max by (pool) (headgate_gateway_flow_control_pool_saturation{~stage="all"})', "{{pool}}"),),
        ),
        Panel(
            "Time in the queue",
            "s",
            (
                (
                    quantile(
                        0.95, "pool, priority", "headgate_gateway_flow_control_request_queue_duration_seconds"
                    ),
                    "{{pool}}, priority {{priority}}, 95 %",
                ),
            ),
        ),
        Panel(
            "Requests without capacity (429)",
            "percentunit",
            ((DROPPED, "{{model}}, {{pool}}"),),
            threshold=MOST_DROPPED,
        ),
        Panel(
            "Queued requests by outcome",
            "reqps",
            (("sum by (outcome) (rate(headgate_gateway_flow_control_requests_total{~}[~]))", "{{outcome}}"),),
        ),
    ),
    "Endpoints": (
        Panel(
            "Ready and ejected endpoints",
            "short",
            (
                ("max by (pool) (headgate_gateway_pool_endpoints{~})", "{{pool}}, ready"),
                ("max by (pool) (headgate_gateway_pool_endpoints_ejected{~})", "{{pool}}, ejected"),
            ),
        ),
        Panel(
            "Failed attempts",
            "reqps",
            (
                (
                    "sum by (pool, reason) (rate(headgate_gateway_attempts_failed_total{~}[~]))",
                    "{{pool}}, {{reason}}",
                ),
            ),
        ),
        Panel(
            "Retries",
            "reqps",
            (
                (
                    "sum by (pool, granted) (rate(headgate_gateway_retries_total{~}[~]))",
                    "{{pool}}, granted: {{granted}}",
                ),
            ),
        ),
        Panel(
            "Fallbacks",
            "reqps",
            (
                (
                    "sum by (pool, to, reason) (rate(headgate_gateway_fallbacks_total{~}[~]))",
                    "{{pool}} to {{to}}, {{reason}}",
                ),
            ),
        ),
        Panel(
            "Prompt tokens found in caches",
            "percentunit",
            (
                (
                    (
                        'sum by (pool) (rate(headgate_gateway_cached_tokens_total{~kind="reported"}[~]))'
                        ' / sum by (pool) (rate(headgate_gateway_cached_tokens_total{~kind="prompt"}[~]))'
                    ),
                    "{{pool}}",
                ),
            ),
        ),
    ),
    "Autoscaling": (
        Panel(
            "Work, in replicas",
            "none",
            (
                ("sum by (pool) (headgate_gateway_pool_work_seconds{~})", "{{pool}}"),
                ("max by (pool) (headgate_gateway_pool_endpoints{~})", "{{pool}}, ready endpoints"),
            ),
        ),
        Panel(
            "Requests that wait for a start",
            "none",
            ((WAIT_FOR_START, "{{pool}}"),),
        ),
        Panel(
            "Arrivals",
            "reqps",
            (("sum by (pool) (rate(headgate_gateway_pool_arrivals_total{~}[~]))", "{{pool}}"),),
        ),
        Panel(
            "Requests running and waiting",
            "none",
            (
                ("sum by (pool) (headgate_gateway_pool_requests_running{~})", "{{pool}}, running"),
                ("sum by (pool) (headgate_gateway_pool_requests_waiting{~})", "{{pool}}, waiting"),
            ),
        ),
        Panel(
            "KV cache in use",
            "percentunit",
            (("avg by (pool) (headgate_gateway_pool_kv_usage_ratio{~})", "{{pool}}"),),
            most=1,
        ),
        Panel(
            "First tokens later than their objective",
            "percentunit",
            (
                (
                    (
                        "sum by (pool) (rate(headgate_gateway_pool_first_token_objectives_total"
                        '{~result="missed"}[~]))'
                        " / sum by (pool) (rate(headgate_gateway_pool_first_token_objectives_total{~}[~]))"
                    ),
                    "{{pool}}",
                ),
            ),
            most=1,
        ),
        Panel(
            "Replicas of bindings",
            "none",
            (
                (
                    "max by (binding, kind) (headgate_controller_autoscaling_replicas{~})",
                    "{{binding}}, {{kind}}",
                ),
            ),
        ),
        Panel(
            "Value of metrics, divided by their target",
            "none",
            (
                (
                    (
                        "max by (binding, metric) (headgate_controller_autoscaling_metric_value{~}"
                        " / headgate_controller_autoscaling_metric_target{~})"
                    ),
                    "{{binding}}, {{metric}}",
                ),
            ),
        ),
        Panel(
            "Changes of replicas",
            "none",
            (
                (
                    "sum by (direction) (increase(headgate_controller_autoscaling_scalings_total{~}[~]))",
                    "{{direction}}",
                ),
            ),
        ),
        Panel(
            "Bindings that do not scale, or not down",
            "none",
            (
                (
                    "max by (binding, reason) (headgate_controller_autoscaling_not_ready{~})",
                    "{{binding}}, {{reason}}",
                ),
                (
                    "max by (binding) (headgate_controller_autoscaling_metrics_missing{~})",
                    "{{binding}}, metrics missing",
                ),
            ),
        ),
        Panel(
            "Time to start a replica",
            "s",
            (("max by (binding) (headgate_controller_autoscaling_start_seconds{~})", "{{binding}}"),),
        ),
        Panel(
            "Error of the forecast, in replicas",
            "none",
            (
                (
                    "max by (binding, method) (headgate_controller_autoscaling_forecast_error_replicas{~})",
                    "{{binding}}, {{method}}",
                ),
            ),
        ),
    ),
    "Limits": (
        Panel(
            "Tokens counted against limits",
            "short",
            (
                (
                    "sum by (route, direction) (rate(headgate_gateway_limit_used_tokens_total{~}[~]))",
                    "{{route}}, {{direction}}",
                ),
            ),
        ),
        Panel(
            "Requests rejected by limits",
            "reqps",
            (("sum by (route) (rate(headgate_gateway_limit_refused_total{~}[~]))", "{{route}}"),),
        ),
    ),
    "Tenants": (
        Panel(
            "Requests by tenant",
            "reqps",
            (("sum by (tenant) (rate(headgate_gateway_tenant_requests_total{~}[~]))", "{{tenant}}"),),
        ),
        Panel(
            "Tokens by tenant",
            "short",
            (
                (
                    "sum by (tenant, direction) (rate(headgate_gateway_tenant_tokens_total{~}[~]))",
                    "{{tenant}}, {{direction}}",
                ),
            ),
        ),
    ),
    "Gateways": (
        Panel(
            "Ready",
            "short",
            (("max by (pod) (headgate_gateway_ready{~})", "{{pod}}"),),
        ),
        Panel(
            "CPU",
            "short",
            (("sum by (pod) (rate(process_cpu_seconds_total{~}[~]))", "{{pod}}"),),
        ),
        Panel(
            "Memory",
            "bytes",
            (("sum by (pod) (process_resident_memory_bytes{~})", "{{pod}}"),),
        ),
        Panel(
            "Client connections",
            "short",
            (("sum by (pod) (headgate_gateway_client_connections{~})", "{{pod}}"),),
        ),
        Panel(
            "Parts of objects without effect",
            "short",
            (("max by (pod) (headgate_gateway_object_problems{~})", "{{pod}}"),),
        ),
        Panel(
            "Requests with invalid credentials",
            "reqps",
            (("sum by (reason) (rate(headgate_gateway_authentication_failures_total{~}[~]))", "{{reason}}"),),
        ),
        Panel(
            "Connections and requests rejected",
            "reqps",
            (("sum by (reason) (rate(headgate_gateway_rejected_total{~}[~]))", "{{reason}}"),),
        ),
    ),
}
