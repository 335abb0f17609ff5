"""Requests meet a policy and a fleet of engines in virtual time."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial

import msgspec

from headgate import fleet, routing, scheduling
from headgate.fleet.prefix import PrefixIndex
from headgate.simulator.fleet.blocks import engine_blocks, of_adapter
from headgate.simulator.fleet.description import FleetDescription
from headgate.simulator.fleet.endpoint import SimulatedEndpoint
from headgate.simulator.fleet.flight import Flight
from headgate.simulator.fleet.observer import Observer
from headgate.simulator.fleet.records import EngineRecord, FleetRun, Outcome, RequestRecord
from headgate.simulator.fleet.timeline import Timeline
from headgate.simulator.model import FinishedRequest, RefusedError, RequestId, SimulatedRequest
from headgate.simulator.traces import TimedRequest


def run_fleet(
    requests: Iterable[TimedRequest],
    description: FleetDescription,
    policy: scheduling.Policy,
    *,
    seed: int,
    prefixes: PrefixIndex | None = None,
    observer: Observer | None = None,
) -> FleetRun:
    """Sends each request, at its time, where the policy wants it, until all have ended.

    Requests come in the order of their times, and are taken one ahead: who hands them out sees how far the
    run is, and may end it by handing out no more.

    `prefixes` is the index that the policy was made with, if any: it is told how large the engines' caches
    are, as a gateway learns from their metrics. `seed` is for what the policy leaves to chance.
    """
    rng = random.Random(seed)  # noqa: S311 - runs must be the same again
    return _Run(requests, description, policy, rng, prefixes, observer).result()


class _Run:
    """The gateway's part of a run: picks, bookings, retries, records."""

    def __init__(
        self,
        requests: Iterable[TimedRequest],
        description: FleetDescription,
        policy: scheduling.Policy,
        rng: random.Random,
        prefixes: PrefixIndex | None,
        observer: Observer | None,
    ) -> None:
        self._description = description
        self._policy = policy
        self._rng = rng
        self._prefixes = prefixes
        self._observer = observer or Observer()
        self._timeline = Timeline()
        self._endpoints = {each.load: each for each in self._make_endpoints()}
        self._pool = list(self._endpoints)
        self._records: dict[int, RequestRecord] = {}
        self._unfinished = 0
        self._coming = enumerate(requests)
        self._bounded_tokens = 0
        if description.scrape_s:
            self._plan_readings()
        self._expect_next()

    def result(self) -> FleetRun:
        self._observer.begins({load: each.engine for load, each in self._endpoints.items()})
        self._timeline.run()
        assert not self._unfinished, f"{self._unfinished} requests were lost"
        return FleetRun(
            records=tuple(record for _, record in sorted(self._records.items())),
            engines=tuple(
                EngineRecord(
                    name=each.name,
                    group=each.group,
                    requests=each.requests,
                    statistics=each.engine.statistics(),
                )
                for each in self._endpoints.values()
            ),
            ended_s=max((record.ended_s for record in self._records.values()), default=0.0),
        )

    def _make_endpoints(self) -> Iterable[SimulatedEndpoint]:
        ledger = fleet.Ledger()
        stepped = self._tell_kv_events if self._observer.wants_kv_events else None
        port = 8000
        rates = fleet.Rates()
        for group in self._description.groups:
            for at in range(group.count):
                load = ledger.load(routing.Endpoint(f"{group.name}-{at}", "127.0.0.1", port))
                load.labels = group.labels
                load.estimator.join(rates)
                port += 1
                yield SimulatedEndpoint(
                    msgspec.structs.replace(group.engine, kv_events=stepped is not None),
                    group.name,
                    load,
                    self._timeline,
                    first_token=self._first_token,
                    finished=self._served,
                    stepped=stepped,
                )

    # -- a request

    def _expect_next(self) -> None:
        """Plans the arrival of the next request, if there is one."""
        for number, timed in self._coming:
            self._unfinished += 1
            self._timeline.at(timed.at_s, partial(self._arrive, number, timed))
            if timed.block_tokens and not self._bounded_tokens:
                self._bound_prefixes(timed.block_tokens)
            return

    def _arrive(self, number: int, timed: TimedRequest) -> None:
        self._expect_next()
        prefix = of_adapter(timed.prefix, timed.adapter)
        scheduled = scheduling.Request(
            model=timed.adapter or "model",
            adapter=timed.adapter,
            prompt_tokens=timed.prompt_tokens,
            prefix=prefix[: timed.prompt_tokens // timed.block_tokens] if prefix else (),
            block_tokens=timed.block_tokens,
            priority=timed.priority,
        )
        self._attempt(Flight(number, timed, scheduled))

    def _attempt(self, flight: Flight) -> None:
        now = self._timeline.now
        choice = scheduling.pick(
            self._policy,
            flight.scheduled,
            self._pool,
            now,
            self._rng,
            flight.tried,
            self._description.max_requests,
        )
        if choice is None:
            self._end(flight, "failed" if flight.attempts else "refused")
            return
        flight.choice = choice
        flight.attempts += 1
        flight.tried.append(choice.load)
        uncached_tokens = max(flight.timed.prompt_tokens - choice.cached_tokens, 0)
        flight.booking = choice.load.book(
            uncached_tokens, flight.scheduled.output_tokens, now, adapter=flight.scheduled.adapter
        )
        self._policy.booked(flight.scheduled, choice, now)
        self._observer.sent(flight.timed, choice.load, now)
        self._send(flight, self._endpoints[choice.load])

    def _send(self, flight: Flight, endpoint: SimulatedEndpoint) -> None:
        timed = flight.timed
        request = SimulatedRequest(
            request_id=RequestId(str(flight.number)),
            prompt_tokens=timed.prompt_tokens,
            output_tokens=timed.output_tokens,
            blocks=engine_blocks(
                of_adapter(timed.prefix, timed.adapter),
                timed.block_tokens,
                timed.prompt_tokens,
                endpoint.config.block_size,
            ),
            adapter=timed.adapter,
        )
        try:
            endpoint.submit(request, flight)
        except RefusedError:
            self._end(flight, "refused")

    def _first_token(self, flight: Flight, now: float) -> None:
        assert flight.booking is not None
        flight.first_token_s = now
        flight.booking.first_token(now)
        self._observer.first_token(flight.timed, flight.booking.load, now)

    def _served(self, flight: Flight, finished: FinishedRequest) -> None:
        self._end(flight, "served", finished)

    def _end(self, flight: Flight, outcome: Outcome, finished: FinishedRequest | None = None) -> None:
        now = self._timeline.now
        if flight.booking is not None:
            booking, flight.booking = flight.booking, None
            booking.end(now)
            self._observer.ended(flight.timed, booking.load, now)
        self._records[flight.number] = flight.record(outcome, now, finished)
        self._unfinished -= 1

    # -- what is learned of engines

    def _bound_prefixes(self, block_tokens: int) -> None:
        self._bounded_tokens = block_tokens
        if self._prefixes is None:
            return
        for endpoint in self._endpoints.values():
            config = endpoint.config
            self._prefixes.limit(endpoint.load, config.kv_blocks * config.block_size // block_tokens)

    def _plan_readings(self) -> None:
        """Engines are read one after the other, spread over the period."""
        period_s = self._description.scrape_s
        for at, endpoint in enumerate(self._endpoints.values()):
            self._timeline.at(at * period_s / len(self._endpoints), partial(self._read, endpoint))

    def _read(self, endpoint: SimulatedEndpoint) -> None:
        if not self._unfinished:
            return
        endpoint.read()
        self._timeline.at(self._timeline.now + self._description.scrape_s, partial(self._read, endpoint))

    def _tell_kv_events(self, endpoint: SimulatedEndpoint) -> None:
        events = endpoint.engine.take_kv_events()
        if events:
            self._observer.kv_events(events, endpoint.load, self._timeline.now)
