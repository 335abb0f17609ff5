"""Queries of Prometheus that alerts and panels share, and the forms that these need.

In a query, `[~]` stands for the window of a rate, and `{~}` for the gateways that somebody chose in Grafana:
`{~code="500"}` also wants that label.
"""

from __future__ import annotations

import re
from typing import Final

CHOSEN: Final = 'namespace=~"$namespace", pod=~"$pod"'
CHOSEN_CONTROLLERS: Final = 'namespace=~"$namespace"'
"""Pods of controllers are not among those of gateways."""

SERVER_ERRORS: Final = (
    'sum by (model, pool) (rate(headgate_gateway_requests_total{~code=~"5.."}[~]))\n'
    "/ sum by (model, pool) (rate(headgate_gateway_requests_total{~}[~]))"
)
BROKEN_STREAMS: Final = (
    "sum by (pool) (rate(headgate_gateway_requests_total"
    '{~outcome=~"upstream_lost|upstream_invalid|idle_timeout"}[~]))\n'
    "/ sum by (pool) (rate(headgate_gateway_requests_total{~}[~]))"
)
DROPPED: Final = (
    "sum by (model, pool) (rate(headgate_gateway_requests_total"
    '{~outcome=~"queue_.*|evicted.*|pool_saturated"}[~]))\n'
    "/ sum by (model, pool) (rate(headgate_gateway_requests_total{~}[~]))"
)
WAIT_FOR_START: Final = "sum by (pool) (headgate_gateway_flow_control_waiting_for_endpoints{~})"


MOST_SERVER_ERRORS: Final = 0.05
MOST_BROKEN_STREAMS: Final = 0.01
MOST_DROPPED: Final = 0.05
CERTIFICATE_DAYS: Final = 7
SLOW_FIRST_TOKEN_S: Final = 5


def quantile(share: float, by: str, metric: str) -> str:
    """What this share of the samples of a histogram does not exceed."""
    return f"histogram_quantile({share}, sum by ({by}, le)\n(rate({metric}_bucket{{~}}[~])))"


def first_token(share: float) -> str:
    return quantile(share, "model", "headgate_gateway_time_to_first_token_seconds")


def in_rule(query: str, window: str = "5m") -> str:
    """For a rule, which looks at all gateways."""
    return query.replace("[~]", f"[{window}]").replace("{~}", "").replace("{~", "{")


def in_panel(query: str) -> str:
    """For a panel of Grafana, in one line."""
    chosen = CHOSEN_CONTROLLERS if "headgate_controller_" in query else CHOSEN
    query = query.replace("[~]", "[$__rate_interval]").replace("{~}", f"{{{chosen}}}")
    return re.sub(r"\s*\n\s*", " ", query.replace("{~", f"{{{chosen}, "))
