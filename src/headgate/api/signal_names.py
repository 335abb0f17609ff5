"""Names of the metrics that gateways measure, for metricName of an AutoscalingPolicy."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "headgate:"
RATIOS: Final = frozenset({"headgate:kv_usage", "headgate:slo_misses"})
"""Means over requests or replicas, from 0 to 1."""
MEANS: Final = RATIOS | {"headgate:ttft_seconds", "headgate:itl_seconds"}
"""Metrics that are means over requests, tokens or replicas; all others are sums."""
WORK: Final = "headgate:work_seconds"
METRICS: Final = (
    "headgate:requests_running",
    "headgate:requests_waiting",
    "headgate:requests_in_flight",
    "headgate:arrivals",
    "headgate:prompt_tokens",
    "headgate:cached_tokens",
    "headgate:output_tokens",
    WORK,
    "headgate:kv_usage",
    "headgate:slo_misses",
    "headgate:ttft_seconds",
    "headgate:itl_seconds",
)
QUERY_PREFIXES: Final = ("prometheus:", "prometheus-mean:")
"""What follows is a query to a Prometheus server."""
