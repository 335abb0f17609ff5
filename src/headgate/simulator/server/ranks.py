"""The data-parallel engines behind one server, balanced as in vLLM."""

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from headgate.simulator.model import EngineConfig, EngineStatistics, RemoteStore
from headgate.simulator.server.failures.settings import LatencySettings
from headgate.simulator.server.live import Ask, LiveEngine, Ticket
from headgate.simulator.server.metrics import Reading, Timings
from headgate.simulator.server.settings import ServerSettings

WAITING_WEIGHT = 4
"""As in vLLM: a waiting request counts as much as this many running ones."""


class Ranks:
    """One or more engines with the same settings, each with its own queue and cache."""

    def __init__(
        self, settings: ServerSettings, transfers_seen: Mapping[str, int], store: RemoteStore | None = None
    ) -> None:
        """`store` is shared with other servers, if the engines have a remote tier; None creates one."""
        self._settings = settings
        self._transfers_seen = transfers_seen
        self._adapters: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._adapters_changed: dict[int, float] = {}
        self.asleep = False
        publishes = settings.kv_events is not None and settings.kv_events.enabled
        config = msgspec.structs.replace(self.tuned(settings.failures), kv_events=publishes)
        store = RemoteStore(config.remote_kv_blocks) if store is None else store
        self.engines = tuple(
            LiveEngine(config, Timings(config.max_model_len), store=store)
            for _ in range(settings.data_parallel_size)
        )

    def submit(self, asks: Sequence[Ask], *, every_token: bool, rank: int | None = None) -> Ticket:
        """Start all sequences on one rank: the given one, or the least loaded."""
        if rank is not None:
            engine = self.engines[rank - self._settings.data_parallel_rank]
        elif len(self.engines) == 1:
            engine = self.engines[0]
        else:
            engine = min(self.engines, key=_load)
        return engine.submit(asks, every_token=every_token)

    def cancel_all(self) -> None:
        for engine in self.engines:
            engine.cancel_all()

    def clear_prefix_cache(self) -> bool:
        """Clear the cache; False if requests use it."""
        cleared = [engine.clear_prefix_cache() for engine in self.engines]
        return all(cleared)

    def restart(self) -> None:
        """Restart all engines as new processes."""
        self.asleep = False
        for engine in self.engines:
            engine.restart(Timings(self._settings.engine.max_model_len))

    def slow_down(self, factor: float) -> None:
        for engine in self.engines:
            engine.slow_down(factor)

    def tuned(self, latencies: LatencySettings) -> EngineConfig:
        """The engine with these latencies. Raises ConfigError."""
        return latencies.latencies().apply(self._settings.engine)

    def change_costs(self, like: EngineConfig) -> None:
        for engine in self.engines:
            engine.change_costs(like)

    def hold(self, seconds: float) -> None:
        for engine in self.engines:
            engine.hold(seconds)

    def sleep(self) -> None:
        """Free the memory: running requests are ended, cached blocks are cleared."""
        self.asleep = True
        self.cancel_all()
        self.clear_prefix_cache()

    def statistics(self) -> EngineStatistics:
        """The sums over all ranks."""
        first, *others = (engine.statistics() for engine in self.engines)
        return functools.reduce(_sum, others, first)

    def readings(self) -> Iterator[Reading]:
        """Readings of all ranks for a scrape."""
        first = self._settings.data_parallel_rank
        for rank, engine in enumerate(self.engines, first):
            now = engine.statistics()
            adapters = (tuple(sorted(now.adapters_running)), tuple(sorted(now.adapters_waiting)))
            if self._adapters.get(rank) != adapters:
                self._adapters[rank] = adapters
                self._adapters_changed[rank] = time.time()
            yield Reading(
                rank=rank,
                config=self._settings.engine,
                statistics=now,
                timings=engine.timings,
                model_name=self._settings.models[0],
                role=self._settings.role,
                running_adapters=adapters[0],
                waiting_adapters=adapters[1],
                adapters_changed_unix_s=self._adapters_changed[rank],
                asleep=self.asleep,
                # Transfers are counted for the whole server; report them with the first rank.
                transfers=self._transfers_seen if rank == first else {},
            )


def _sum(one: EngineStatistics, other: EngineStatistics) -> EngineStatistics:
    """Add numbers and tuples, add dicts by key, and join sets."""
    sums: dict[str, Any] = {}
    for name in one.__struct_fields__:
        left, right = getattr(one, name), getattr(other, name)
        if isinstance(left, dict):
            sums[name] = {key: value + right[key] for key, value in left.items()}
        else:
            sums[name] = left | right if isinstance(left, frozenset) else left + right
    return EngineStatistics(**sums)


def _load(engine: LiveEngine) -> int:
    now = engine.statistics()
    return now.waiting * WAITING_WEIGHT + now.running
