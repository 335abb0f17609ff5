"""Metrics of tenants, for gateways whose clients need credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.telemetry import Counter, LabelValues, Registry
from headgate.telemetry.metrics import CounterChild

if TYPE_CHECKING:
    from headgate.auth.tenant import Grant
    from headgate.dataplane.records.access_log import Tokens

Series = tuple[CounterChild, ...]
"""Of one tenant and status: requests, input tokens, output tokens."""
MAX_TENANTS: Final = 100
"""Tenants with their own series; all others count as "other"."""


class TenantMetrics:
    """`registry` is None for processes that authenticate nobody."""

    def __init__(self, registry: Registry | None, prefix: str) -> None:
        self._names = LabelValues(MAX_TENANTS)
        self._series: dict[tuple[str, int], Series] = {}
        self.ended = Counter(
            f"{prefix}_tenant_requests",
            "Requests of authenticated clients by the status that they received.",
            ("tenant", "code"),
        )
        self.tokens = Counter(
            f"{prefix}_tenant_tokens",
            "Tokens of authenticated clients that the engines report; direction is input or output.",
            ("tenant", "direction"),
        )
        if registry is not None:
            registry.add(self.ended, self.tokens)

    def observe(self, tenant: Grant, status: int, tokens: Tokens | None) -> None:
        """Record a request that is settled."""
        series = self._series.get((tenant.name, status)) or self._series_of(tenant.name, status)
        series[0].value += 1
        if tokens is not None:
            series[1].value += tokens[0]
            series[2].value += tokens[1]

    def _series_of(self, tenant: str, status: int) -> Series:
        """They are kept only for tenants with their own: others can be any number."""
        name = self._names.value(tenant)
        tokens = (self.tokens.labels(name, direction) for direction in ("input", "output"))
        found = (self.ended.labels(name, str(status)), *tokens)
        if name == tenant:
            self._series[tenant, status] = found
        return found
