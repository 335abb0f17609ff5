"""Metrics of token limits, read from the routes' accounts at each scrape."""

from __future__ import annotations

from collections.abc import Callable

from headgate.flow.limits import Account, RouteLimits
from headgate.quota.lease_source import LeaseSource
from headgate.quota.sources import Sources
from headgate.telemetry import Counter, Gauge, Registry

_Samples = list[tuple[tuple[str, ...], float]]
_LABELS = ("route", "direction")


def add_metrics(
    registry: Registry, limits: RouteLimits, sources: Sources, clock: Callable[[], float]
) -> None:
    """Add the figures of each direction, input and output, of every limited route."""

    def each(value: Callable[[Account], float]) -> Callable[[], _Samples]:
        def read() -> _Samples:
            return [
                ((limit.name, account.direction), value(account))
                for limit in limits.by_route.values()
                for account in limit.accounts()
            ]

        return read

    def available(account: Account) -> float:
        return account.budget.available(clock())

    prefix = "headgate_gateway_limit"
    registry.add(
        Gauge(
            f"{prefix}_tokens",
            "Tokens that a route may use in each unit of time.",
            _LABELS,
            each(lambda account: account.budget.limit),
            over="max",
        ),
        Gauge(
            f"{prefix}_available_tokens",
            "Tokens of a route's limit that are left.",
            _LABELS,
            each(lambda account: max(available(account), 0.0)),
            over="max",
        ),
        Gauge(
            f"{prefix}_debt_tokens",
            "Tokens that a route has used beyond its limit, and that must come in before a request goes.",
            _LABELS,
            each(lambda account: max(-available(account), 0.0)),
            over="max",
        ),
        Gauge(
            f"{prefix}_reserved_tokens",
            "Tokens of a route's limit that are held for requests under way.",
            _LABELS,
            each(lambda account: account.reserved),
        ),
        Counter(
            f"{prefix}_used_tokens",
            "Tokens that were counted against a route's limit, of requests that are over.",
            _LABELS,
            each(lambda account: account.used),
        ),
        Counter(
            f"{prefix}_refused",
            "Requests for which a route's limit had too little left; direction is what they would have "
            "waited for the longest.",
            _LABELS,
            each(lambda account: account.refused),
        ),
    )
    _add_sources(registry, sources)


def _add_sources(registry: Registry, sources: Sources) -> None:
    """Figures of each Redis that counts for routes, and of the supervisor that counts for all workers."""

    def each(value: Callable[[LeaseSource], float]) -> Callable[[], _Samples]:
        return lambda: [((source.name,), value(source)) for source in sources.all()]

    prefix = "headgate_gateway_limit_source"
    registry.add(
        Gauge(
            f"{prefix}_away",
            "1 while a Redis that counts limits does not answer in time, and gateways go by shares; or the "
            "supervisor, which counts for all workers.",
            ("source",),
            each(lambda source: bool(source.trouble)),
            over="max",
        ),
        Gauge(
            f"{prefix}_denied",
            "1 while the ACL of a Redis forbids what counting needs; the log says which command or key.",
            ("source",),
            each(lambda source: source.is_denied),
            over="max",
        ),
        Counter(
            f"{prefix}_exchanges",
            "Round trips to it; requests that find their tokens on lease need none.",
            ("source",),
            each(lambda source: source.exchanges.count),
        ),
        Counter(
            f"{prefix}_failures",
            "Those that failed; the log says why.",
            ("source",),
            each(lambda source: source.exchanges.failures),
        ),
    )
