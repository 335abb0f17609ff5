"""Records every request once it is settled: metrics, and one line of access log.

The children of the metrics are cached per kind of end, since a lookup by labels costs more than the sample.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from headgate import routing
from headgate.dataplane.queueing.metrics import WaitMetrics
from headgate.dataplane.records.access_log import AccessLog
from headgate.dataplane.records.attempt_metrics import AttemptMetrics
from headgate.dataplane.records.kept_requests import KeptRequests
from headgate.dataplane.records.live_names import NONE, LiveNames
from headgate.dataplane.records.log_field_cache import LogFieldCache
from headgate.dataplane.records.request_metrics import Key, RequestMetrics, RequestSeries
from headgate.dataplane.records.service_metrics import ServiceMetrics
from headgate.dataplane.records.tenant_metrics import TenantMetrics
from headgate.requests import objectives
from headgate.requests.queueing.kinds import UNKNOWN
from headgate.telemetry import Counter, LineLog, Registry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.dataplane.records.served_request import ServedRequest
    from headgate.dataplane.tracing.tracer import Tracer
    from headgate.requests.life import Life
    from headgate.requests.pool_state import PoolState
    from headgate.requests.refusal import Refusal

PREFIX = "headgate_gateway"
"""Of the metrics of gateways."""
MAX_SERIES = 10_000
"""Keys whose series are cached; beyond this number, the cache is cleared."""


class Recorder:
    """Counts and logs requests. `log` is None without an access log."""

    def __init__(
        self, registry: Registry, log: LineLog | None, log_format: str = "text", prefix: str = PREFIX
    ) -> None:
        """`prefix` begins the names of all metrics."""
        self.write_to(log, log_format)
        self.requests = RequestMetrics(registry, prefix)
        self.attempts = AttemptMetrics(registry, prefix)
        self.rejections = Counter(
            f"{prefix}_rejected",
            "Connections closed because of an invalid request or a limit.",
            ("reason",),
        )
        self.translations_failed = Counter(
            f"{prefix}_translations_failed",
            "Object changes that could not be applied: requests continue with the previous objects. This is "
            "a bug of the gateway; see its log.",
        )
        self.denials = Counter(
            f"{prefix}_authentication_failures",
            "Requests rejected because of their credentials, by the code of the error.",
            ("reason",),
        )
        registry.add(self.rejections, self.translations_failed)
        if prefix == PREFIX:  # pickers authenticate nobody
            registry.add(self.denials)
        self.services = ServiceMetrics(registry if prefix == PREFIX else None)  # pickers have none
        self.tenants = TenantMetrics(registry if prefix == PREFIX else None, prefix)
        self.kept = KeptRequests()
        self.waits = WaitMetrics(registry, self.requests.models, prefix)
        self._series: dict[Key, RequestSeries] = {}
        self.tracer: Tracer | None = None
        """Decides which requests are traced; None without tracing. Set before the first request."""
        self._live = LiveNames()
        self._is_late = False
        """Whether a request ended after the last snapshot, with an object that may be gone."""

    def write_to(self, log: LineLog | None, log_format: str) -> None:
        """Write log lines to `log` from now on, in this format; None turns the access log off."""
        self.log = AccessLog(log, log_format) if log is not None else None

    def settled(self, ended: ServedRequest, now: float) -> None:
        """Called exactly once for every request, however it ended."""
        life = ended.life
        account, decision, pool = life.account, life.decision, life.pool
        match = decision.match
        is_named = match is not None and not match.route.takes_unknown
        if match is not None:
            route, rule = match.route.name, match.rule.name
        else:
            route, rule = NONE, NONE
        model, asked = (decision.model, decision.upstream_model) if is_named else (UNKNOWN, "")
        pool_name = pool.name if pool is not None else NONE
        key = (model, route, rule, pool_name, asked, account.status, account.outcome, decision.stream)
        series = self._series.get(key) or self._series_of(key, life)
        tokens = series.observe(ended, now)
        if ended.request.objective_s != math.inf and pool is not None:
            self._judge(pool, life, ended.request.objective_s, now)
        if life.fallen is not None and life.fallen.hops:
            self.attempts.fell_back(life.fallen.hops, pool_name)
        if (tenant := ended.request.tenant) is not None:
            self.tenants.observe(tenant, account.status, tokens)
        if self.tracer is not None:
            kept = self.tracer.settled(ended, now)
            if kept is not None:
                series.exemplify(ended, tokens, kept, self.tracer.clock(), now)
        self.kept.settled(ended, tokens, now)
        if self.log is not None:
            words = series.words if is_named else LogFieldCache(life)
            self.log.add(self.log.line(ended, words, tokens, now))

    def _judge(self, pool: PoolState, life: Life, objective_s: float, now: float) -> None:
        """Count whether the request got its first token in time."""
        missed = objectives.is_missed(life, objective_s, now)
        if missed is not None:
            pool.traffic.judged(is_missed=missed)

    def _series_of(self, key: Key, life: Life) -> RequestSeries:
        model, route, _, pool, *_ = key
        self._is_late = self._is_late or not self._live.have(model, route, pool)
        if len(self._series) >= MAX_SERIES:
            self._series.clear()
        series = self._series[key] = RequestSeries(self.requests, key, LogFieldCache(life))
        return series

    def use(self, snapshot: routing.Snapshot, difference: routing.Difference, *, is_anew: bool) -> None:
        """Delete the series of routes, pools and models that are gone.

        While none is gone, no series are examined, unless a request ended after its objects did.
        """
        self._series.clear()
        is_less = self._live.change(snapshot, difference, is_anew=is_anew)
        if is_less or self._is_late:
            self._is_late = False
            self._end_series()

    def _end_series(self) -> None:
        live = self._live
        self.requests.keep(live)
        self.attempts.keep(live.pools)
        self.waits.keep(live.pools, live.models)

    def use_entry_points(self, routes: set[str], services: set[str]) -> None:
        """Delete the series of HTTPRoutes and Services that are gone."""
        self._live.use_more_routes(routes)
        self.services.keep(routes, services)

    def use_providers(self, names: Iterable[str]) -> None:
        """Delete the series of external providers and models of them that are gone; these are left."""
        if self._live.use_providers(names):
            self._series.clear()
            self._end_series()

    def refused_here(self, refusal: Refusal) -> None:
        """Called for a request that is neither for an endpoint nor for a page of the gateway. Only counted,
        since in a flood, log lines would cost more than the responses."""
        self.requests.refused(refusal)

    def denied(self, reason: str) -> None:
        """Called for a request that is rejected because of its credentials."""
        self.denials.labels(reason).value += 1

    def displaced(self) -> None:
        """Called for a connection without a request that was displaced by another."""
        self.rejections.labels("idle_displaced").value += 1

    def rejected(self, refusal: Refusal, address: str, target: bytes, now: float) -> None:
        """Called for bytes that never became a request, and for rejected connections."""
        self.rejections.labels(refusal.code).value += 1
        if self.log is not None:
            self.log.rejected(refusal, address, target, now)

    def flush(self) -> None:
        if self.log is not None:
            self.log.flush()
