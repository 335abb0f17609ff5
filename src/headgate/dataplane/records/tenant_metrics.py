"""Metrics of tenants, for gateways whose clients need credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.telemetry import Counter, LabelValues, Registry

if TYPE_CHECKING:
    from headgate.auth.tenant import Grant
    from headgate.dataplane.records.access_log import Tokens

MAX_TENANTS: Final = 100
"""Tenants with their own series; all others count as "other"."""


class TenantMetrics:
    """`registry` is None for processes that authenticate nobody."""

    def __init__(self, registry: Registry | None, prefix: str) -> None:
        self._names = LabelValues(MAX_TENANTS)
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
        name = self._names.value(tenant.name)
        self.ended.labels(name, str(status)).value += 1
        if tokens is not None:
            self.tokens.labels(name, "input").value += tokens[0]
            self.tokens.labels(name, "output").value += tokens[1]
