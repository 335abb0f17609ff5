"""Metrics that are read from the state of the gateway at scrape time."""

from __future__ import annotations

from collections import Counter as Tally
from typing import TYPE_CHECKING

from headgate import fleet
from headgate.dataplane.queueing import gauges as queueing_gauges
from headgate.gateway import signal_gauges
from headgate.quota import metrics as quota_metrics
from headgate.telemetry import Counter, Gauge, Registry

if TYPE_CHECKING:
    from headgate.gateway.shell import Shell

_Samples = list[tuple[tuple[str, ...], float]]


def add_gauges(registry: Registry, shell: Shell) -> None:
    """Add the metrics that always have a value, even without requests."""
    read = _Reader(shell)
    quota_metrics.add_metrics(registry, shell.plane.routes.limits, shell.services.limit_sources, shell.now)
    queueing_gauges.add_gauges(registry, shell.queues)
    signal_gauges.add_gauges(registry, shell)
    prefix = "headgate_gateway"
    registry.add(
        Gauge(
            f"{prefix}_ready",
            "1 while the gateway routes requests, 0 before that and while stopping.",
            (),
            read.ready,
            over="max",
        ),
        Gauge(f"{prefix}_client_connections", "Open client connections.", (), read.clients),
        Gauge(
            f"{prefix}_held_body_bytes",
            "Bytes of request bodies in memory; clients.max_bodies_bytes limits them per worker.",
            (),
            read.body_bytes,
        ),
        Gauge(f"{prefix}_active_requests", "Requests in progress.", ("pool",), read.requests),
        Gauge(f"{prefix}_active_streams", "Streamed requests in progress.", ("pool",), read.streams),
        Gauge(
            f"{prefix}_endpoint_requests",
            "Requests in flight on an endpoint.",
            ("endpoint",),
            read.endpoint_requests,
        ),
        Gauge(
            f"{prefix}_endpoint_connections",
            "Open connections to an endpoint; state is busy (a request is served on it) or idle.",
            ("endpoint", "state"),
            read.endpoint_connections,
        ),
        Gauge(
            f"{prefix}_pool_endpoints", "Ready endpoints of a pool.", ("pool",), read.endpoints, over="max"
        ),
        Gauge(
            f"{prefix}_pool_endpoints_ejected",
            "Endpoints of a pool that get no requests because they failed or sent Retry-After.",
            ("pool",),
            read.ejected,
            over="max",
        ),
        Gauge(
            f"{prefix}_endpoint_readings",
            "Endpoints by the state of their engine's reading: fresh, stale, missing (never read), or "
            "unsupported (no metrics page of a known engine). Without a fresh reading, the gateway "
            "estimates load from its own requests.",
            ("state",),
            read.readings,
            over="max",
        ),
        Gauge(
            f"{prefix}_endpoint_reading_age_seconds",
            "Time since the engine of an endpoint was last read successfully.",
            ("endpoint",),
            read.reading_ages,
            over="max",
        ),
        Counter(
            f"{prefix}_engine_pages",
            "Reads of engine metrics pages; result is read, absent (no page, or not one of the configured "
            "engine) or failed.",
            ("result",),
            read.engine_pages,
        ),
        Counter(
            f"{prefix}_engine_pages_malformed",
            "Metrics on engine pages that are implausible or cannot be parsed; they count as unknown.",
            (),
            read.malformed,
        ),
        Counter(
            f"{prefix}_engine_restarts",
            "Detected restarts of engines, whose caches are then assumed to be empty.",
            (),
            read.restarts,
        ),
        Gauge(
            f"{prefix}_prefix_blocks",
            "Prompt blocks of 1 KB or more that the cache of an endpoint is expected to hold.",
            ("endpoint",),
            read.prefix_blocks,
        ),
        Counter(
            f"{prefix}_prefix_blocks_dropped",
            "Blocks no longer expected in a cache: evicted (for others), expired (not used for long) or "
            "forgotten (the engine restarted, or holds less than expected).",
            ("reason",),
            read.prefix_dropped,
        ),
        Gauge(
            f"{prefix}_kv_event_sources",
            "Engines that publish KV cache events, by state; for those that are not live, the gateway "
            "estimates the content of the cache.",
            ("state",),
            read.kv_event_sources,
        ),
        Gauge(
            f"{prefix}_kv_event_blocks",
            "Blocks that engines report in KV cache events, counted once per rank. The limit is per worker.",
            (),
            read.kv_event_blocks,
        ),
        Counter(
            f"{prefix}_kv_event_messages",
            "Messages with KV cache events; result is read, repeated (missed, then fetched by a replay), "
            "missed (for good) or invalid.",
            ("result",),
            read.kv_event_messages,
        ),
        Counter(
            f"{prefix}_kv_event_silences",
            "Engines that published nothing for a minute although they got prompts.",
            (),
            read.kv_event_silences,
        ),
        Counter(
            f"{prefix}_prompts_tokenized",
            "Prompts to tokenize, so that they can be found in reported KV caches; result is learned, "
            "skipped (too many, or of an unsupported kind) or failed.",
            ("result",),
            read.prompts_tokenized,
        ),
        Gauge(f"{prefix}_models", "Model and adapter names that have a route.", (), read.models, over="max"),
        Gauge(
            f"{prefix}_object_problems",
            "Parts of objects without effect; `/debug/config` lists them.",
            (),
            read.problems,
            over="max",
        ),
        Gauge(
            f"{prefix}_denied_kinds",
            "1 for each kind of objects that the API server does not let the gateway read; the namespace is "
            "empty for all of them. `/debug/config` has the reasons.",
            ("kind", "namespace"),
            read.denied,
            over="max",
        ),
        Counter(f"{prefix}_snapshots", "Object changes that took effect.", (), read.snapshots),
        Gauge(
            f"{prefix}_snapshot_timestamp_seconds",
            "When the last object change took effect, in seconds since 1970.",
            (),
            read.snapshot_time,
            over="max",
        ),
        Counter(
            f"{prefix}_scorer_failures",
            "Picks in which a user-defined scorer raised an error, so its score counted as 0.",
            ("scorer",),
            read.scorer_failures,
        ),
        Counter(
            f"{prefix}_access_log_lines",
            "Access log lines; result is written or dropped (they are not read fast enough, or the disk is "
            "full).",
            ("result",),
            read.log_lines,
        ),
    )


class _Reader:
    """Returns the samples of each metric."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def ready(self) -> _Samples:
        return [((), self._shell.is_ready)]

    def clients(self) -> _Samples:
        return [((), len(self._shell.clients))]

    def body_bytes(self) -> _Samples:
        return [((), self._shell.services.bodies.held)]

    def requests(self) -> _Samples:
        return self._active(streams_only=False)

    def streams(self) -> _Samples:
        return self._active(streams_only=True)

    def _active(self, *, streams_only: bool) -> _Samples:
        found = Tally({pool.name: 0 for pool in self._shell.plane.pools.values()})
        for client in self._shell.clients.all:
            exchange = client.exchange
            if exchange is None or exchange.life.pool is None:
                continue
            if exchange.life.decision.stream or not streams_only:
                found[exchange.life.pool.name] += 1
        return [((pool,), count) for pool, count in found.items()]

    def endpoint_requests(self) -> _Samples:
        # A Pod that two pools use on different ports is two endpoints with one name.
        found: Tally[str] = Tally()
        for load in self._shell.plane.ledger.loads():
            found[load.endpoint.name] += load.own_requests
        return [((name,), count) for name, count in found.items()]

    def endpoint_connections(self) -> _Samples:
        found: Tally[tuple[str, ...]] = Tally()
        for each in self._shell.all_connections():
            counts = each.statistics()
            found[each.endpoint.name, "idle"] += counts["idle"]
            found[each.endpoint.name, "busy"] += counts["open"] - counts["idle"]
        return list(found.items())

    def endpoints(self) -> _Samples:
        return [((pool.name,), len(pool.loads)) for pool in self._shell.plane.pools.values()]

    def ejected(self) -> _Samples:
        now = self._shell.now()
        pools = self._shell.plane.pools.values()
        return [((pool.name,), len(fleet.without_requests(pool.loads, now))) for pool in pools]

    def readings(self) -> _Samples:
        now = self._shell.now()
        states = Tally(watch.state(now) for watch in self._shell.scraper.watches())
        return [((state,), states[state]) for state in ("fresh", "stale", "missing", "unsupported")]

    def reading_ages(self) -> _Samples:
        now = self._shell.now()
        seen = [(watch.target.endpoint, watch.observation.reading) for watch in self._shell.scraper.watches()]
        return [((endpoint.name,), now - reading.at) for endpoint, reading in seen if reading is not None]

    def engine_pages(self) -> _Samples:
        return [((result,), count) for result, count in self._shell.scraper.looks.pages.items()]

    def malformed(self) -> _Samples:
        return [((), self._shell.scraper.looks.malformed_families)]

    def restarts(self) -> _Samples:
        return [((), self._shell.scraper.looks.restarts)]

    def prefix_blocks(self) -> _Samples:
        found: Tally[str] = Tally()
        for load in self._shell.plane.ledger.loads():
            found[load.endpoint.name] += self._shell.plane.prefixes.blocks(load)
        return [((name,), count) for name, count in found.items()]

    def prefix_dropped(self) -> _Samples:
        counts = self._shell.plane.prefixes.statistics()
        return [((reason,), counts[reason]) for reason in ("evicted", "expired", "forgotten")]

    def kv_event_sources(self) -> _Samples:
        found = Tally(dict.fromkeys(("live", "connecting", "lost", "silent"), 0))
        for source in self._shell.kv_events.sources.values():
            found[source.state] += 1
        return [((state,), count) for state, count in found.items()]

    def kv_event_blocks(self) -> _Samples:
        return [((), self._shell.kv_events.exact.residency.blocks_together)]

    def kv_event_messages(self) -> _Samples:
        return [((result,), count) for result, count in self._shell.kv_events.counts().items()]

    def kv_event_silences(self) -> _Samples:
        return [((), self._shell.kv_events.silences)]

    def prompts_tokenized(self) -> _Samples:
        return [((result,), count) for result, count in self._shell.kv_events.tokens.counts.items()]

    def models(self) -> _Samples:
        return [
            ((), len(self._shell.plane.snapshot.models.keys() | self._shell.plane.snapshot.adapters.keys()))
        ]

    def problems(self) -> _Samples:
        return [((), len(self._shell.plane.snapshot.problems))]

    def denied(self) -> _Samples:
        return [
            ((kind, namespace), 1.0)
            for kind, namespace in {
                (each.resource.qualified_name, each.namespace or "") for each in self._shell.denied()
            }
        ]

    def snapshots(self) -> _Samples:
        return [((), self._shell.snapshots_taken)]

    def snapshot_time(self) -> _Samples:
        return [((), self._shell.snapshot_at)] if self._shell.snapshots_taken else []

    def scorer_failures(self) -> _Samples:
        found: Tally[str] = Tally()
        for pool in self._shell.plane.pools.values():
            found.update(pool.policy.failures())
        return [((name,), count) for name, count in found.items()]

    def log_lines(self) -> _Samples:
        log = self._shell.recorder.log
        if log is None:
            return []
        counts = log.statistics()
        return [(("written",), counts["lines_written"]), (("dropped",), counts["lines_dropped"])]
