"""Metrics that are read from the state of a process at scrape time."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from headgate import fleet
from headgate.dataplane import signal_gauges
from headgate.dataplane.queueing import gauges as queueing_gauges
from headgate.telemetry import Counter, Gauge, Registry

if TYPE_CHECKING:
    from headgate import cluster
    from headgate.dataplane.queueing import Queues
    from headgate.dataplane.records.recorder import Recorder
    from headgate.observe.kv_events import KvEventSources
    from headgate.observe.scraper import Scraper
    from headgate.requests.data_plane import DataPlane

_Samples = list[tuple[tuple[str, ...], float]]


class Process(Protocol):
    """A process of the data path."""

    @property
    def plane(self) -> DataPlane: ...
    @property
    def queues(self) -> Queues: ...
    @property
    def scraper(self) -> Scraper: ...
    @property
    def kv_events(self) -> KvEventSources: ...
    @property
    def recorder(self) -> Recorder: ...
    @property
    def denied(self) -> Callable[[], list[cluster.Denied]]:
        """Returns the objects that the API server does not let it read."""
        ...

    @property
    def snapshots_taken(self) -> int: ...
    @property
    def snapshot_at(self) -> float:
        """When the last snapshot took effect, in seconds since 1970."""
        ...

    @property
    def is_ready(self) -> bool: ...
    def now(self) -> float: ...


def add_gauges(registry: Registry, process: Process, prefix: str) -> None:
    """Add the metrics that always have a value, even without requests."""
    read = _Reader(process)
    queueing_gauges.add_gauges(registry, process.queues, prefix)
    signal_gauges.add_gauges(registry, process, prefix)
    registry.add(
        Gauge(
            f"{prefix}_ready",
            "1 while the gateway routes requests, 0 before that and while stopping.",
            (),
            read.ready,
            over="max",
        ),
        Gauge(
            f"{prefix}_endpoint_requests",
            "Requests in flight on an endpoint.",
            ("endpoint",),
            read.endpoint_requests,
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

    def __init__(self, process: Process) -> None:
        self._process = process

    def ready(self) -> _Samples:
        return [((), self._process.is_ready)]

    def endpoint_requests(self) -> _Samples:
        # A Pod that two pools use on different ports is two endpoints with one name.
        found: Tally[str] = Tally()
        for load in self._process.plane.ledger.loads():
            found[load.endpoint.name] += load.own_requests
        return [((name,), count) for name, count in found.items()]

    def endpoints(self) -> _Samples:
        return [((pool.name,), len(pool.loads)) for pool in self._process.plane.pools.values()]

    def ejected(self) -> _Samples:
        now = self._process.now()
        pools = self._process.plane.pools.values()
        return [((pool.name,), len(fleet.without_requests(pool.loads, now))) for pool in pools]

    def readings(self) -> _Samples:
        now = self._process.now()
        states = Tally(watch.state(now) for watch in self._process.scraper.watches())
        return [((state,), states[state]) for state in ("fresh", "stale", "missing", "unsupported")]

    def reading_ages(self) -> _Samples:
        now = self._process.now()
        seen = [
            (watch.target.endpoint, watch.observation.reading) for watch in self._process.scraper.watches()
        ]
        return [((endpoint.name,), now - reading.at) for endpoint, reading in seen if reading is not None]

    def engine_pages(self) -> _Samples:
        return [((result,), count) for result, count in self._process.scraper.looks.pages.items()]

    def malformed(self) -> _Samples:
        return [((), self._process.scraper.looks.malformed_families)]

    def restarts(self) -> _Samples:
        return [((), self._process.scraper.looks.restarts)]

    def prefix_blocks(self) -> _Samples:
        found: Tally[str] = Tally()
        for load in self._process.plane.ledger.loads():
            found[load.endpoint.name] += self._process.plane.prefixes.blocks(load)
        return [((name,), count) for name, count in found.items()]

    def prefix_dropped(self) -> _Samples:
        counts = self._process.plane.prefixes.statistics()
        return [((reason,), counts[reason]) for reason in ("evicted", "expired", "forgotten")]

    def kv_event_sources(self) -> _Samples:
        found = Tally(dict.fromkeys(("live", "connecting", "lost", "silent"), 0))
        for source in self._process.kv_events.sources.values():
            found[source.state] += 1
        return [((state,), count) for state, count in found.items()]

    def kv_event_blocks(self) -> _Samples:
        return [((), self._process.kv_events.exact.residency.blocks_together)]

    def kv_event_messages(self) -> _Samples:
        return [((result,), count) for result, count in self._process.kv_events.counts().items()]

    def kv_event_silences(self) -> _Samples:
        return [((), self._process.kv_events.silences)]

    def prompts_tokenized(self) -> _Samples:
        return [((result,), count) for result, count in self._process.kv_events.tokens.counts.items()]

    def models(self) -> _Samples:
        return [
            (
                (),
                len(
                    self._process.plane.snapshot.models.keys() | self._process.plane.snapshot.adapters.keys()
                ),
            )
        ]

    def problems(self) -> _Samples:
        return [((), len(self._process.plane.problems()))]

    def denied(self) -> _Samples:
        return [
            ((kind, namespace), 1.0)
            for kind, namespace in {
                (each.resource.qualified_name, each.namespace or "") for each in self._process.denied()
            }
        ]

    def snapshots(self) -> _Samples:
        return [((), self._process.snapshots_taken)]

    def snapshot_time(self) -> _Samples:
        return [((), self._process.snapshot_at)] if self._process.snapshots_taken else []

    def scorer_failures(self) -> _Samples:
        found: Tally[str] = Tally()
        for pool in self._process.plane.pools.values():
            found.update(pool.policy.failures())
        return [((name,), count) for name, count in found.items()]

    def log_lines(self) -> _Samples:
        log = self._process.recorder.log
        if log is None:
            return []
        counts = log.statistics()
        return [(("written",), counts["lines_written"]), (("dropped",), counts["lines_dropped"])]
