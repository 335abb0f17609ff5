"""An engine's metrics page, and the readings that gateways take of it."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.engines import Figures, Total
from headgate.fleet import EndpointState
from headgate.fleet.observation import Observation
from headgate.simulator.model import Emission, EngineConfig, EngineStatistics

EPOCH_S = 1.0
"""Unix time of the beginning of the run, in seconds: any value but 0, which means unknown."""


class Reader:
    """One gateway that reads the page."""

    __slots__ = ("load", "observation")

    def __init__(self, load: EndpointState) -> None:
        self.load = load
        """Its state of the endpoint."""
        self.observation = Observation()


class Vitals:
    """Keeps the counters of a metrics page, and the readings of its endpoint."""

    def __init__(self, config: EngineConfig, load: EndpointState, stale_s: float) -> None:
        self._config = config
        self._stale_s = stale_s
        self._readers = [Reader(load)]
        self._figures = Figures()
        self._started_s = 0.0
        self._ttft = Total(0.0, 0.0)
        self._tpot = Total(0.0, 0.0)

    def add_reader(self, load: EndpointState) -> None:
        """Another gateway reads the page; `load` is its state of the endpoint."""
        self._readers.append(Reader(load))

    def count(self, emitted: Sequence[Emission]) -> None:
        """Count tokens that were sent."""
        first_s = gaps_s = 0.0
        firsts = tokens = 0
        for emission in emitted:
            if emission.position:
                gaps_s += emission.gap_s
                tokens += emission.tokens
            else:
                first_s += emission.gap_s
                firsts += 1
        if firsts:
            self._ttft = Total(self._ttft.sum_s + first_s, self._ttft.samples + firsts)
        if tokens:
            self._tpot = Total(self._tpot.sum_s + gaps_s, self._tpot.samples + tokens)

    def begin_anew(self, now: float) -> None:
        """The engine's process has restarted."""
        self._started_s = now
        self._ttft = self._tpot = Total(0.0, 0.0)

    def forget(self, now: float) -> None:
        """A process has started, and the gateway knows nothing of the last one."""
        for reader in self._readers:
            reader.observation = Observation()
        self._figures = Figures()
        self.begin_anew(now)

    def show(self, statistics: EngineStatistics) -> None:
        """Set the values that the page shows from now on."""
        self._figures = Figures(
            waiting=statistics.waiting,
            running=statistics.running,
            kv_usage=statistics.kv_usage,
            block_tokens=self._config.block_size,
            blocks=self._config.kv_blocks,
            ttft=self._ttft,
            ttft_is_of_all=True,
            tpot=self._tpot,
            adapters_running=statistics.adapters_running,
            adapters_waiting=statistics.adapters_waiting,
            max_adapters=statistics.max_adapters,
            started_at=EPOCH_S + self._started_s,
        )

    def seen(self, now: float, by: int = 0) -> bool:
        """A gateway, given by its number, reads the page; returns whether the engine has restarted since its
        last reading."""
        reader = self._readers[by]
        restarted = reader.observation.see(self._figures, now)
        reader.load.read(reader.observation.reading)
        return restarted

    def missed(self, now: float, by: int = 0) -> None:
        """A gateway gets no page: its last reading is used until it is stale."""
        load = self._readers[by].load
        reading = load.reading
        if reading is not None and now - reading.at > self._stale_s:
            load.read(None)
