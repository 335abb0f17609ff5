"""Metrics of attempts, and of the endpoints that they are sent to."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headgate.dataplane.records.live_names import NONE
from headgate.requests.health import why
from headgate.telemetry import Counter, Histogram, Registry

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from headgate.fleet import EndpointState
    from headgate.requests.fallen import Hop
    from headgate.requests.pool_state import PoolState

log = logging.getLogger(__name__)


class AttemptMetrics:
    """The observer of the data plane (`requests/observer.py`): counts its events, and logs those about
    endpoints."""

    def __init__(self, registry: Registry, prefix: str) -> None:
        self._connect = Histogram(
            f"{prefix}_upstream_connect_seconds",
            "Time to open a connection to an endpoint, including TLS.",
            ("pool",),
        )
        self._cached_tokens = Counter(
            f"{prefix}_cached_tokens",
            "Prompt tokens of requests whose engine reported cached tokens; kind is prompt (all of them), "
            "believed (expected to be cached when the endpoint was picked) or reported.",
            ("pool", "kind"),
        )
        self._failed = Counter(
            f"{prefix}_attempts_failed",
            "Attempts without a complete response, with 502, 503 or 504, or with a status after which "
            "another endpoint was tried; reason is what happened.",
            ("pool", "reason"),
        )
        self._retries = Counter(
            f"{prefix}_retries",
            "Retries requested, by whether the retry budget of the pool granted them.",
            ("pool", "granted"),
        )
        self._ejections = Counter(
            f"{prefix}_ejections",
            "Endpoints ejected from their pools, by the last failure; `retry_after` counts those that asked "
            "for no requests for a while.",
            ("pool", "reason"),
        )
        self._fallbacks = Counter(
            f"{prefix}_fallbacks",
            "Requests that left a pool for another model or pool; reason is no-endpoint, saturated, error, "
            "slo or limit, and to is the pool that got the request.",
            ("pool", "reason", "to"),
        )
        self._prefill_decisions = Counter(
            f"{prefix}_prefill_decisions",
            "For pools with separate prefill and decode: attempts by where the prompt is prefilled; "
            "`remote` is another endpoint, anything else is the reason why the decoding endpoint prefills.",
            ("pool", "decision"),
        )
        self._prefill = Histogram(
            f"{prefix}_prefill_seconds",
            "Time that an endpoint took to prefill a prompt for another, including queue and connection.",
            ("pool",),
        )
        self._all = (
            self._connect,
            self._cached_tokens,
            self._failed,
            self._retries,
            self._ejections,
            self._fallbacks,
            self._prefill_decisions,
            self._prefill,
        )
        registry.add(*self._all)

    def keep(self, pools: Collection[str]) -> None:
        """Delete the series of all other pools."""
        for metric in self._all:
            metric.keep("pool", pools)
        self._fallbacks.keep("to", pools)

    def fell_back(self, hops: Sequence[Hop], last: str) -> None:
        """A request left these for the next one each; `last` is the pool where it ended."""
        places = [hop.pool or NONE for hop in hops]
        for place, reason, to in zip(places, (hop.reason for hop in hops), (*places[1:], last), strict=True):
            self._fallbacks.labels(place, reason, to).value += 1

    def cached(self, pool: PoolState, prompt: int, believed: int, reported: int) -> None:
        """Tokens of one prompt, and how many of them were expected and reported to be cached."""
        for kind, tokens in (("prompt", prompt), ("believed", believed), ("reported", reported)):
            self._cached_tokens.labels(pool.name, kind).value += tokens

    def connected(self, pool: PoolState, took_s: float) -> None:
        self._connect.labels(pool.name).observe(took_s)

    def attempt_failed(self, pool: PoolState, reason: str) -> None:
        self._failed.labels(pool.name, reason).value += 1

    def retry(self, pool: PoolState, granted: bool) -> None:
        self._retries.labels(pool.name, "yes" if granted else "no").value += 1

    def paired(self, pool: PoolState, decision: str) -> None:
        self._prefill_decisions.labels(pool.name, decision).value += 1

    def prefilled(self, pool: PoolState, took_s: float) -> None:
        self._prefill.labels(pool.name).observe(took_s)

    def ejected(self, pool: PoolState, load: EndpointState, reason: str, *, is_out: bool) -> None:
        if is_out:
            self._ejections.labels(pool.name, reason).value += 1
            what = f"is ejected for {load.ejection.length_s:g} s"
        else:
            what = "is still used, as the pool has no better one,"
        where = load.endpoint.name, load.endpoint.address, pool.name
        log.warning("%s (%s) of %s %s after %s", *where, what, why(load))

    def rests(self, pool: PoolState, load: EndpointState, seconds: float) -> None:
        self._ejections.labels(pool.name, "retry_after").value += 1
        where = load.endpoint.name, load.endpoint.address, pool.name
        if len(pool.loads) > 1:
            told = "%s (%s) of %s gets no requests for %g s, as it requested (Retry-After)"
        else:
            told = "%s (%s) of %s requests a pause of %g s (Retry-After), but the pool has no other endpoint"
        log.info(told, *where, seconds)
