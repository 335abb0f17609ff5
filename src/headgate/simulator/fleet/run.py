"""Run requests through a policy and a fleet of engines in virtual time."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial

import msgspec

from headgate import fleet, routing, scheduling
from headgate.fleet.prefix import PrefixIndex
from headgate.simulator.fleet.clients import Clients
from headgate.simulator.fleet.description import FleetDescription
from headgate.simulator.fleet.endpoint import SimulatedEndpoint
from headgate.simulator.fleet.gateway import SimulatedGateway
from headgate.simulator.fleet.hanging import HangWatch
from headgate.simulator.fleet.observer import Observer
from headgate.simulator.fleet.records import EngineRecord
from headgate.simulator.fleet.scaling import Scaler, Scaling
from headgate.simulator.fleet.starts import Starts
from headgate.simulator.fleet.summary import FleetRun
from headgate.simulator.fleet.timeline import Timeline
from headgate.traffic.traces import TimedRequest

SWEEP_INTERVAL_S = 1.0
"""How often the gateway sweeps its queue."""
STALE_AFTER_LOOKS = 3.0
"""Scrape periods after which a reading is stale, as in the gateway."""


def run_fleet(
    requests: Iterable[TimedRequest],
    description: FleetDescription,
    policy: scheduling.Policy,
    *,
    seed: int,
    prefixes: PrefixIndex | None = None,
    observer: Observer | None = None,
    scaling: Scaling | None = None,
) -> FleetRun:
    """Send each request at its time to the endpoint that the policy picks, until all have ended.

    `requests` are ordered by time and read one ahead: the iterator can follow the progress of the run, and
    end it early. Requests with `think_s` follow the first one of their session.

    `prefixes` is the index that the policy was created with, if any: its size follows the engines' caches, as
    a gateway learns it from their metrics. `seed` drives all randomness, of the policy and of faults.
    `scaling` starts and drains engines as a controller wants.
    """
    return _Run(requests, description, policy, seed, prefixes, observer or Observer(), scaling).result()


class _Run:
    """The engines, the gateway in front of them, and the clients."""

    def __init__(
        self,
        requests: Iterable[TimedRequest],
        description: FleetDescription,
        policy: scheduling.Policy,
        seed: int,
        prefixes: PrefixIndex | None,
        observer: Observer,
        scaling: Scaling | None,
    ) -> None:
        self._description = description
        self._prefixes = prefixes
        self._observer = observer
        self._timeline = Timeline()
        self._ledger = fleet.Ledger(description.ejection)
        self._endpoints = list(self._make_endpoints(_rng(seed, "faults")))
        self._clients = Clients(requests, self._timeline, self._arrive)
        self._gateway = SimulatedGateway(
            description,
            policy,
            _rng(seed, "policy"),
            self._timeline,
            self._ledger,
            self._endpoints,
            prefixes if prefixes is not None else PrefixIndex(),
            observer,
            self._clients.ended,
            self._wanted,
        )
        self._starts = Starts(
            self._timeline, self._endpoints, self._gateway.follow_readiness, self._engine_stopped
        )
        if scaling is not None:
            Scaler(
                self._timeline,
                self._endpoints,
                scaling,
                self._gateway.follow_readiness,
                self._engine_stopped,
            )
            self._gateway.follow_readiness()
        self._bounded_tokens = 0
        self._plan_readiness()
        if description.scrape_s:
            self._plan_readings()
        if description.ejection.failures:
            HangWatch(
                self._timeline,
                self._endpoints,
                self._gateway.refresh_endpoints,
                asks_questions=description.scrape_s > 0,
            ).begin()
        if description.flow is not None:
            self._plan_sweep()
        self._clients.expect_next()

    def result(self) -> FleetRun:
        self._observer.begins(self._endpoints)
        self._timeline.run()
        assert not self._gateway.unfinished, f"{self._gateway.unfinished} requests were lost"
        records = [record for _, record in sorted(self._gateway.records.items())]
        ended_s = max((record.ended_s for record in records), default=0.0)
        return FleetRun(
            records=tuple(records),
            engines=tuple(
                EngineRecord(
                    name=each.name,
                    group=each.group.name,
                    requests=each.requests,
                    busy_s=each.busy_s,
                    energy_j=each.energy_j(ended_s),
                    dollars=each.config.dollars_per_hour * each.uptime.up_s(ended_s) / 3600,
                    crashes=each.uptime.crashes,
                    starts=each.uptime.starts,
                    up_s=each.uptime.up_s(ended_s),
                    ejections=each.load.ejection.count,
                    statistics=each.engine.statistics(),
                )
                for each in self._endpoints
            ),
            ended_s=ended_s,
            retries_denied=self._gateway.budget.denied,
        )

    # -- engines

    def _make_endpoints(self, rng: random.Random) -> Iterable[SimulatedEndpoint]:
        stepped = self._tell_kv_events if self._observer.wants_kv_events else None
        port = 8000
        store = self._description.new_store()
        for group in self._description.groups:
            config = msgspec.structs.replace(group.engine, kv_events=stepped is not None)
            for at in range(group.count):
                load = self._ledger.load(routing.Endpoint(f"{group.name}-{at}", "127.0.0.1", port))
                port += 1
                endpoint = SimulatedEndpoint(
                    group,
                    config,
                    load,
                    self._timeline,
                    self._description.faults.of(load.endpoint.name),
                    rng,
                    stepped,
                    STALE_AFTER_LOOKS * self._description.scrape_s,
                    store,
                )
                start = group.cold_start
                if start is not None and start.running is not None and at >= start.running:
                    endpoint.uptime.begin_stopped()
                yield endpoint

    def _tell_kv_events(self, endpoint: SimulatedEndpoint) -> None:
        events = endpoint.engine.take_kv_events()
        if events:
            self._observer.kv_events(events, endpoint.load, self._timeline.now)

    def _plan_readiness(self) -> None:
        """Schedule updates of the pool when endpoints become ready or unready."""
        for endpoint in self._endpoints:
            for time_s in endpoint.changes:
                self._timeline.at(time_s, self._gateway.follow_readiness)

    def _wanted(self) -> None:
        self._starts.wanted()

    def _engine_stopped(self, endpoint: SimulatedEndpoint) -> None:
        """Remove an endpoint, and what the gateway knew about it."""
        endpoint.load.models.clear()
        endpoint.load.read(None)
        if self._prefixes is not None:
            self._prefixes.forget(endpoint.load)
        self._gateway.follow_readiness()

    # -- clients

    def _arrive(self, number: int, timed: TimedRequest) -> None:
        if timed.block_tokens and not self._bounded_tokens:
            self._bound_prefixes(timed.block_tokens)
        self._gateway.arrive(number, timed)

    # -- what the gateway learns from engines

    def _bound_prefixes(self, block_tokens: int) -> None:
        self._bounded_tokens = block_tokens
        if self._prefixes is not None:
            for endpoint in self._endpoints:
                tokens = endpoint.config.kv_blocks * endpoint.config.block_size
                self._prefixes.limit(endpoint.load, tokens // block_tokens)

    def _plan_sweep(self) -> None:
        self._timeline.at(self._timeline.now + SWEEP_INTERVAL_S, self._sweep, is_awaited=False)

    def _sweep(self) -> None:
        self._gateway.sweep()
        self._plan_sweep()

    def _plan_readings(self) -> None:
        """Schedule metrics readings, spread evenly over the period."""
        period_s = self._description.scrape_s
        for at, endpoint in enumerate(self._endpoints):
            first_s = at * period_s / len(self._endpoints)
            self._timeline.at(first_s, partial(self._read, endpoint), is_awaited=False)

    def _read(self, endpoint: SimulatedEndpoint) -> None:
        if endpoint.read():
            endpoint.load.begins_anew(self._timeline.now)
            endpoint.load.models.clear()
            if self._prefixes is not None:
                self._prefixes.forget(endpoint.load)
        self._observer.read(endpoint, self._timeline.now)
        self._gateway.look_at_queue()
        next_s = self._timeline.now + self._description.scrape_s
        self._timeline.at(next_s, partial(self._read, endpoint), is_awaited=False)


def _rng(seed: int, what: str) -> random.Random:
    """A reproducible random generator, separate for each purpose."""
    return random.Random(f"{seed}/{what}")  # noqa: S311
