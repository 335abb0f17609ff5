"""Several gateways, or pickers, in front of one fleet: each has its own ledger, prefix index and queue.

Requests are dealt to them in turn, as a load balancer would, or as the caller says. They may share what they
know, by a `Sharing`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from headgate import fleet, routing, scheduling
from headgate.fleet.prefix import PrefixIndex
from headgate.simulator.fleet.clients import Clients
from headgate.simulator.fleet.description import FleetDescription
from headgate.simulator.fleet.endpoint import SimulatedEndpoint
from headgate.simulator.fleet.gateway import SimulatedGateway
from headgate.simulator.fleet.observer import Observer
from headgate.simulator.fleet.records import RequestRecord
from headgate.simulator.fleet.sharing import Sharing
from headgate.simulator.fleet.timeline import Timeline
from headgate.traffic.traces import TimedRequest

SWEEP_INTERVAL_S = 1.0


class Member(NamedTuple):
    """The decisions of one gateway. The policy uses the index."""

    policy: scheduling.Policy
    prefixes: PrefixIndex


def run_members(
    requests: Iterable[TimedRequest],
    description: FleetDescription,
    members: Sequence[Member],
    *,
    seed: int,
    sharing: Sharing | None = None,
    member_of: Callable[[int, TimedRequest], int] | None = None,
) -> list[RequestRecord]:
    """Deal the requests to the members; returns the records of all requests, in order. `member_of` returns
    the number of the member to which a request comes; without it, they come to all in turn.

    Raises ValueError for fleets with faults or cold starts, which are not simulated here.
    """
    if any(group.cold_start is not None for group in description.groups) or description.faults.faults:
        raise ValueError("several members: leave out the fleet's faults and cold starts")

    def in_turn(number: int, _: TimedRequest) -> int:
        return number % len(members)

    return _Run(requests, description, members, seed, sharing, member_of or in_turn).result()


class _Run:
    """One fleet, and the gateways in front of it."""

    def __init__(
        self,
        requests: Iterable[TimedRequest],
        description: FleetDescription,
        members: Sequence[Member],
        seed: int,
        sharing: Sharing | None,
        member_of: Callable[[int, TimedRequest], int],
    ) -> None:
        self._description = description
        self._members = members
        self._member_of = member_of
        self._timeline = Timeline()
        self._clients = Clients(requests, self._timeline, self._arrive)
        ledgers = [fleet.Ledger(description.ejection) for _ in members]
        self._endpoints = self._make_endpoints(ledgers, random.Random(f"{seed}/faults"))  # noqa: S311
        self._gateways = [
            SimulatedGateway(
                description,
                member.policy,
                random.Random(f"{seed}/policy/{number}"),  # noqa: S311
                self._timeline,
                ledger,
                self._endpoints,
                member.prefixes,
                Observer(),
                self._clients.ended,
                _nothing,
            )
            for number, (member, ledger) in enumerate(zip(members, ledgers, strict=True))
        ]
        self._loads = [[ledger.load(each.load.endpoint) for each in self._endpoints] for ledger in ledgers]
        self._are_bounded = False
        if description.scrape_s:
            self._plan_readings()
        if description.flow is not None:
            self._repeat(SWEEP_INTERVAL_S, self._sweep)
        if sharing is not None:
            sharing.join([gateway.plane for gateway in self._gateways])
            self._repeat(sharing.period_s, partial(self._exchange, sharing))
        self._clients.expect_next()

    def result(self) -> list[RequestRecord]:
        self._timeline.run()
        lost = sum(gateway.unfinished for gateway in self._gateways)
        assert not lost, f"{lost} requests were lost"
        records = {number: each for gateway in self._gateways for number, each in gateway.records.items()}
        return [record for _, record in sorted(records.items())]

    def _make_endpoints(self, ledgers: Sequence[fleet.Ledger], rng: random.Random) -> list[SimulatedEndpoint]:
        """Each ledger has its own state of each endpoint, which its own readings update."""
        made: list[SimulatedEndpoint] = []
        store = self._description.new_store()
        for group in self._description.groups:
            for at in range(group.count):
                address = routing.Endpoint(f"{group.name}-{at}", "127.0.0.1", 8000 + len(made))
                endpoint = SimulatedEndpoint(
                    group,
                    group.engine,
                    ledgers[0].load(address),
                    self._timeline,
                    self._description.faults.of(address.name),
                    rng,
                    None,
                    0.0,
                    store,
                )
                for ledger in ledgers[1:]:
                    endpoint.vitals.add_reader(ledger.load(address))
                made.append(endpoint)
        return made

    def _arrive(self, number: int, timed: TimedRequest) -> None:
        if timed.block_tokens and not self._are_bounded:
            self._are_bounded = True
            self._bound_prefixes(timed.block_tokens)
        self._gateways[self._member_of(number, timed)].arrive(number, timed)

    def _bound_prefixes(self, block_tokens: int) -> None:
        for member, loads in zip(self._members, self._loads, strict=True):
            for load, endpoint in zip(loads, self._endpoints, strict=True):
                tokens = endpoint.config.kv_blocks * endpoint.config.block_size
                member.prefixes.limit(load, tokens // block_tokens)

    def _plan_readings(self) -> None:
        """Spread the readings of all members and endpoints evenly over the period."""
        period_s = self._description.scrape_s
        count = len(self._endpoints) * len(self._gateways)
        for at, endpoint in enumerate(self._endpoints):
            for by in range(len(self._gateways)):
                first_s = (at * len(self._gateways) + by) * period_s / count
                read = partial(self._read, endpoint, by)
                self._timeline.at(first_s, partial(self._again, period_s, read), is_awaited=False)

    def _read(self, endpoint: SimulatedEndpoint, by: int) -> None:
        endpoint.read(by)
        self._gateways[by].look_at_queue()

    def _sweep(self) -> None:
        for gateway in self._gateways:
            gateway.sweep()

    def _exchange(self, sharing: Sharing) -> None:
        sharing.exchange(self._timeline.now, self._later)

    def _later(self, delay_s: float, deliver: Callable[[float], None]) -> None:
        def arrive() -> None:
            deliver(self._timeline.now)
            for gateway in self._gateways:
                gateway.look_at_queue()

        self._timeline.at(self._timeline.now + delay_s, arrive, is_awaited=False)

    def _repeat(self, period_s: float, action: Callable[[], None]) -> None:
        self._timeline.at(
            self._timeline.now + period_s, partial(self._again, period_s, action), is_awaited=False
        )

    def _again(self, period_s: float, action: Callable[[], None]) -> None:
        action()
        self._repeat(period_s, action)


def _nothing() -> None:
    """Engines run from the beginning, so requests need not wait for their start."""
