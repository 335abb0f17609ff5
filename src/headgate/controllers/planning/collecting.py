"""The loads that are planned for: those that gateways or a Prometheus server tell, without noise.

Prometheus comes first where the ConfigMap names one: it knows the requests of all gateways. Requests that
wait for the first replica are known to gateways alone, and count as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from headgate.controllers.planning.gateway_loads import GatewayLoads
from headgate.controllers.planning.loads import Demand
from headgate.controllers.planning.prometheus_loads import FRESH_S, PrometheusLoads
from headgate.observe.signals import Signals
from headgate.planning.assembling import Group
from headgate.planning.load import METRICS_MISSING, METRICS_STALE, Load, LoadFilter, MeanLoad, Missing
from headgate.planning.settings_map import PrometheusSettings

log = logging.getLogger(__name__)

PROMPT_TOKENS, OUTPUT_TOKENS = 512.0, 256.0
"""Lengths of requests as long as none are known."""
_RISEN: Final = 1.2
_RISEN_PER_S: Final = 0.2
"""A load has risen if it is larger by this factor, and by so many requests per second."""
_LOOKS_PER_S: Final = 10.0
"""Models that Prometheus is asked about between passes, at most."""


class Server(Protocol):
    """A Prometheus server; see `PrometheusLoads`."""

    async def collect(self, model: str, namespace: str) -> Load | Missing: ...

    async def requests_over(self, model: str, namespace: str, seconds: float) -> float | Missing: ...

    def window_s(self, model: str, namespace: str) -> float: ...

    async def close(self) -> None: ...


class Loads:
    """Collects loads, and remembers those that were planned for."""

    def __init__(
        self, signals: Signals, prometheus_of: Callable[[PrometheusSettings], Server] = PrometheusLoads
    ) -> None:
        self._gateways = GatewayLoads(signals)
        self._prometheus_of = prometheus_of
        self._settings: PrometheusSettings | None = None
        self._prometheus: Server | None = None
        self._filters: dict[Group, LoadFilter] = {}
        self._means: dict[Group, MeanLoad] = {}
        self._planned_for: dict[Group, tuple[Demand, Load | Missing]] = {}
        self.measured: Mapping[Group, Load] = {}
        """The loads of the last pass as they were told, over a minute or nearly so."""
        self._looked_at = 0.0

    async def use(self, settings: PrometheusSettings | None) -> None:
        """Ask this server from now on; None: the gateways."""
        if settings == self._settings:
            return
        before, self._prometheus = self._prometheus, None
        self._settings = settings
        if settings is not None:
            self._prometheus = self._prometheus_of(settings)
            log.info("loads come from Prometheus at %s", settings.url)
        else:
            log.info("loads come from gateways")
        self._filters.clear()
        self._means.clear()
        self._planned_for.clear()
        if before is not None:
            await before.close()

    async def aclose(self) -> None:
        if self._prometheus is not None:
            await self._prometheus.close()

    async def collect(self, demands: Sequence[Demand]) -> Mapping[Group, Load | Missing]:
        """The loads to plan for; they are remembered."""
        told = await asyncio.gather(*map(self._told, demands))
        self._filters = {each.group: self._filters.get(each.group) or LoadFilter() for each in demands}
        self._means = {each.group: self._means.get(each.group) or MeanLoad() for each in demands}
        loads = [self._steady(demand, load) for demand, load in zip(demands, told, strict=True)]
        means = [self._mean(demand, load) for demand, load in zip(demands, told, strict=True)]
        self.measured = {
            demand.group: mean for demand, mean in zip(demands, means, strict=True) if mean is not None
        }
        self._planned_for = {each.group: (each, load) for each, load in zip(demands, loads, strict=True)}
        return {group: load for group, (_, load) in self._planned_for.items()}

    async def has_risen(self) -> bool:
        """Whether a load is now clearly more than was planned for, or known at last. To be asked about once
        a second: noise is told from change by what was measured meanwhile."""
        known = list(self._planned_for.values())
        if self._prometheus is not None:
            now = asyncio.get_running_loop().time()
            if now - self._looked_at < max(FRESH_S, len(known) / _LOOKS_PER_S):
                return False
            self._looked_at = now
        told = await asyncio.gather(*(self._told(demand) for demand, _ in known))
        # All of them: each filter has to see what is measured.
        risen = [
            _has_risen(before, self._steady(demand, load))
            for (demand, before), load in zip(known, told, strict=True)
        ]
        return any(risen)

    async def is_over(self, demand: Demand, retention_s: float) -> bool:
        """Whether there was no request for so long."""
        if self._prometheus is None:
            idle_s = self._gateways.idle_s(demand)
            return idle_s is not None and idle_s >= retention_s
        if self._gateways.has_had_requests(demand, retention_s):
            return False
        if not demand.replicas:
            return True  # there is nobody whom Prometheus could ask
        return await self._prometheus.requests_over(*demand.group, retention_s) == 0

    async def _told(self, demand: Demand) -> Load | Missing:
        if self._prometheus is None:
            return self._gateways.now(demand)
        found = await self._prometheus.collect(*demand.group)
        waiting = self._gateways.awaiting(demand)
        if isinstance(found, Missing):
            # Requests that wait for the first replica are known whatever becomes of the server, also while
            # that one starts.
            is_asleep = not demand.replicas and found.reason in (METRICS_MISSING, METRICS_STALE)
            is_known = is_asleep or (waiting and demand.replicas <= 1)
            return Load(arrivals_per_s=0.0, waiting=waiting) if is_known else found
        return msgspec.structs.replace(found, waiting=found.waiting + waiting) if waiting else found

    def _steady(self, demand: Demand, load: Load | Missing) -> Load | Missing:
        """The load to plan for: changes of it without noise."""
        known = self._filters.get(demand.group)
        if isinstance(load, Missing) or known is None:
            return load
        window_s = self._prometheus.window_s(*demand.group) if self._prometheus is not None else None
        now = asyncio.get_running_loop().time()
        if self._prometheus is None:
            self._means[demand.group].add(load, now)
        found = known.add(load, now, start_s=demand.start_s, window_s=window_s)
        return msgspec.structs.replace(
            found,
            prompt_tokens=found.prompt_tokens or PROMPT_TOKENS,
            output_tokens=found.output_tokens or OUTPUT_TOKENS,
        )

    def _mean(self, demand: Demand, load: Load | Missing) -> Load | None:
        """What engines had to do lately; None if it is not known for long enough."""
        if isinstance(load, Missing):
            return None
        return load if self._prometheus is not None else self._means[demand.group].mean()


def _has_risen(before: Load | Missing, now: Load | Missing) -> bool:
    if isinstance(now, Missing):
        return False
    if isinstance(before, Missing):
        return True
    more = now.arrivals_per_s - before.arrivals_per_s
    return more > _RISEN_PER_S and now.arrivals_per_s > _RISEN * before.arrivals_per_s
