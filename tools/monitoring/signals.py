"""The recording rules: the signals of each pool, added up over all gateways (docs/signals.md)."""

from __future__ import annotations

from typing import Final

INTERVAL: Final = "15s"
SIGNALS: Final = {
    "headgate:work_seconds": "sum by (pool) (headgate_gateway_pool_work_seconds)",
    "headgate:requests_in_flight": "sum by (pool) (headgate_gateway_active_requests)",
    "headgate:requests_running": "sum by (pool) (headgate_gateway_pool_requests_running)",
    "headgate:requests_waiting": "sum by (pool) (headgate_gateway_pool_requests_waiting)",
    "headgate:arrivals": "sum by (pool) (rate(headgate_gateway_pool_arrivals_total[1m]))",
    "headgate:prompt_tokens": "sum by (pool) (rate(headgate_gateway_pool_prompt_tokens_total[1m]))",
    "headgate:cached_tokens": "sum by (pool) (rate(headgate_gateway_pool_cached_prompt_tokens_total[1m]))",
    "headgate:output_tokens": "sum by (pool) (rate(headgate_gateway_pool_output_tokens_total[1m]))",
    "headgate:kv_usage": "avg by (pool) (headgate_gateway_pool_kv_usage_ratio)",
    "headgate:slo_misses": (
        'sum by (pool) (rate(headgate_gateway_pool_first_token_objectives_total{result="missed"}[1m]))\n'
        "/ sum by (pool) (rate(headgate_gateway_pool_first_token_objectives_total[1m]))"
    ),
    "headgate:ttft_seconds": (
        "sum by (pool) (rate(headgate_gateway_pool_first_token_seconds_total[1m]))\n"
        "/ (sum by (pool) (rate(headgate_gateway_pool_timed_requests_total[1m])) > 0)"
    ),
    "headgate:itl_seconds": (
        "sum by (pool) (rate(headgate_gateway_pool_inter_token_seconds_total[1m]))\n"
        "/ (sum by (pool) (rate(headgate_gateway_pool_timed_tokens_total[1m])) > 0)"
    ),
}
"""By the names that AutoscalingPolicies use; each has the label `pool`."""
