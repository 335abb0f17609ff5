"""Log fields that many requests share: decision, outcome, and origin of the error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate import routing
from headgate.dataplane.records import log_text
from headgate.requests.account import CLIENT, SERVED

if TYPE_CHECKING:
    from headgate.requests.life import Life

_UPSTREAM: Final = frozenset(
    {
        "endpoint_unreachable",
        "idle_timeout",
        "prefill_failed",
        "provider_failed",
        "provider_saturated",
        "upstream_failed",
        "upstream_invalid",
        "upstream_lost",
        "upstream_timeout",
    }
)
"""Outcomes caused by an endpoint, or an external provider."""
_GATEWAY: Final = frozenset(
    {"evicted", "evicted_priority", "evicted_queue_pressure", "queue_full", "queue_timeout"}
)
"""Outcomes with a status below 500 that are not caused by a client."""


class LogFieldCache:
    """Log fields of all requests with the same decision and end."""

    __slots__ = ("is_plain", "json_decision", "json_end", "text")

    def __init__(self, life: Life) -> None:
        decision, pool, match = life.decision, life.pool, life.decision.match
        model = decision.model or None
        route = match.route.name if match is not None else None
        rule = match.rule.name if match is not None else None
        server = pool.name if pool is not None else None
        status, outcome = life.account.status, life.account.outcome
        self.is_plain = origin(status, outcome) is None
        self.text = (
            f"{status} outcome={outcome} model={log_text.word(model)} route={log_text.word(route)}"
            f" rule={log_text.word(rule)} pool={log_text.word(server)}"
        )
        self.json_end = f'"status_code":{status},"outcome":"{outcome}"'
        decided = {
            "error_origin": origin(status, outcome),
            "model_name": log_text.cut(model),
            "model_route": route,
            "route_rule": log_text.cut(rule),
            "model_server": server,
            "backend_type": _backend_type(life),
            "backend_name": server,
            "upstream_model": log_text.cut(decision.upstream_model) if server is not None else None,
            "stream": decision.stream,
        }
        self.json_decision = log_text.to_json(decided)[1:-1]


def _backend_type(life: Life) -> str:
    if life.pool is None:
        return "unresolved"
    kind = life.pool.pool.key.kind
    return "model_server" if kind == routing.MODEL_SERVER else "inference_pool"


def origin(status: int, outcome: str) -> str | None:
    """Who caused a failure; None if there was none."""
    if outcome == SERVED:
        return "upstream" if status >= 400 else None
    if outcome in _UPSTREAM:
        return "upstream"
    if outcome in CLIENT:
        return "client"
    # With a status below 400, the client has a stream that began before the response, and ended with an
    # error.
    return "client" if 400 <= status < 500 and outcome not in _GATEWAY else "gateway"
