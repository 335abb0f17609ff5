"""Solve a system description: exactly, or with the choices of the reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from headgate.planning import greedy, planner
from headgate.planning.candidates import Candidate, Entry, Rejected, all_predicted, candidates
from headgate.planning.problem import MAX_REPLICAS, SWITCHING, Demand, Option, Plan, Problem
from headgate.planning.sizing import PERCENTILE, Sizer
from headgate.planning.system import PLENTY, Load, Server, System

__all__ = [
    "LIMIT_S",
    "SCARCE",
    "Allocation",
    "Solution",
    "TypeTotal",
    "as_demand",
    "as_reference",
    "by_demand",
    "exactly",
    "with_shared_loads",
]

LIMIT_S: Final = 10.0
SCARCE: Final = "not enough accelerators"
"""With which the reason of a server begins that could run if there were more."""
_PARTLY: Final = 1 - 1e-6


class Allocation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Of one server; the first fields are those of the description, times in milliseconds."""

    accelerator: str
    num_replicas: int
    max_batch: int
    cost: float
    itl_average: float
    ttft_average: float
    """The percentile, where the plan is for one."""
    load: Load
    utilization: float
    share: float
    """Of the requests of its demand that go to this server: its weight in routing."""
    served: float
    """Share of these requests that it takes within its targets."""


class TypeTotal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Accelerators of one type."""

    count: int
    limit: int | None = None
    """None: unlimited."""
    cost: float


class Solution(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A plan for all servers."""

    allocations: dict[str, Allocation]
    allocation_by_type: dict[str, TypeTotal]
    unserved: dict[str, str]
    """Servers without an allocation, and why."""
    cost: float
    optimal: bool | None = None
    """Whether it is proven that no plan is better; None: the reference proves nothing."""
    gap: float | None = None
    """How much of the cost might be saved at most, as a share."""


def as_reference(system: System, percentile: float | None = None, sizer: Sizer | None = None) -> Solution:
    """Each server alone, or greedy with limits and a saturation policy; by default for the mean."""
    entries = [_within_maximum(entry) for entry in candidates(system, percentile, sizer)]
    chosen = (
        greedy.unlimited(entries)
        if system.optimizer.unlimited
        else greedy.limited(entries, system.capacity, system.optimizer)
    )
    uses: list[_Use] = []
    for entry in entries:
        candidate = chosen.get(entry.server.name)
        if candidate is not None:
            taken = candidate.replicas * candidate.capacity_per_s
            served = min(1.0, taken / entry.rate_per_s) if entry.rate_per_s > 0 else 1.0
            uses.append(_Use(entry, candidate, entry.rate_per_s, 1.0, served))
    return _solution(system, entries, uses)


def exactly(
    system: System,
    percentile: float | None = PERCENTILE,
    *,
    limit_s: float = LIMIT_S,
    switching: float = SWITCHING,
    sizer: Sizer | None = None,
    clock: Callable[[], float] | None = None,
) -> Solution:
    """All servers together, by default for a percentile of requests. Servers that name the same demand share
    its load. For `limit_s` and `clock` see `planner.plan`; the time for sizing is not counted."""
    entries = candidates(with_shared_loads(system), percentile, sizer)
    problem = Problem(
        demands=tuple(as_demand(name, group) for name, group in by_demand(entries).items()),
        capacity=None if system.optimizer.unlimited else system.capacity,
        best_effort=system.optimizer.saturation_policy != "None",
        switching=switching,
    )
    plan = planner.plan(problem, limit_s, clock)
    uses = [use for name, group in by_demand(entries).items() for use in _uses(plan, name, group)]
    solution = _solution(system, entries, uses)
    return msgspec.structs.replace(solution, optimal=plan.is_optimal, gap=plan.gap)


def by_demand(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """The servers of each demand, by the name of its `Demand`."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(_demand_of(entry.server), []).append(entry)
    return groups


def _demand_of(server: Server) -> str:
    return f"demand {server.demand}" if server.demand else f"server {server.name}"


def with_shared_loads(system: System) -> System:
    """Each server has the load of its demand: arrivals are added up, lengths are means of all requests."""
    groups: dict[str, list[Load]] = {}
    for server in system.servers.values():
        groups.setdefault(_demand_of(server), []).append(server.current_alloc.load)
    loads = {name: group[0] if len(group) == 1 else _sum(group) for name, group in groups.items()}
    servers = {
        name: msgspec.structs.replace(
            server,
            current_alloc=msgspec.structs.replace(server.current_alloc, load=loads[_demand_of(server)]),
        )
        for name, server in system.servers.items()
    }
    return msgspec.structs.replace(system, servers=servers)


def _sum(loads: Sequence[Load]) -> Load:
    total = math.fsum(each.arrival_rate for each in loads)
    if not total:
        return loads[0]
    tokens = math.fsum(each.arrival_rate * each.avg_in_tokens for each in loads) / total
    squares = math.fsum(
        each.arrival_rate * (1 + each.in_tokens_spread) * each.avg_in_tokens**2 for each in loads
    )
    return Load(
        arrival_rate=total,
        avg_in_tokens=tokens,
        in_tokens_spread=max(squares / total / tokens**2 - 1, 0.0) if tokens else 0.0,
        avg_out_tokens=math.fsum(each.arrival_rate * each.avg_out_tokens for each in loads) / total,
    )


def as_demand(name: str, entries: Sequence[Entry]) -> Demand:
    """What is to be planned for the servers of one demand."""
    return Demand(
        name=name,
        rate_per_s=max(entry.rate_per_s for entry in entries),
        priority=min(entry.priority for entry in entries),
        options=tuple(
            _option(entry.server, candidate)
            for entry in entries
            for candidate in entry.candidates
            if candidate.replicas
        ),
    )


def _option(server: Server, candidate: Candidate) -> Option:
    current = server.current_alloc
    return Option(
        server=server.name,
        accelerator=candidate.accelerator,
        type=candidate.type,
        units=candidate.units,
        cost=candidate.cost / candidate.replicas,
        rate_per_s=candidate.capacity_per_s or 1.0,
        minimum=server.min_num_replicas,
        maximum=server.max_num_replicas or MAX_REPLICAS,
        current=current.num_replicas if current.accelerator == candidate.accelerator else 0,
    )


class _Use(NamedTuple):
    """What was decided for a server."""

    entry: Entry
    candidate: Candidate
    rate_per_s: float
    """Requests of its demand."""
    share: float
    served: float

    @property
    def own_per_s(self) -> float:
        """Requests of each replica; those that are too many are left out."""
        if self.served < _PARTLY:
            return self.candidate.capacity_per_s
        return self.rate_per_s * self.share / self.candidate.replicas if self.candidate.replicas else 0.0


def _uses(plan: Plan, name: str, entries: Sequence[Entry]) -> Iterator[_Use]:
    """Those of the servers of one demand. A demand of which nothing is served has none, and neither has a
    server that fits no accelerator."""
    own = {each.option.server: each for each in plan.assignments if each.demand == name}
    rate_per_s = max(entry.rate_per_s for entry in entries)
    is_idle = rate_per_s <= 0 and any(entry.candidates for entry in entries)
    if not own and not is_idle:
        return
    for entry in entries:
        assignment = own.get(entry.server.name)
        if not entry.candidates:
            continue
        if assignment is None:
            yield _Use(entry, Candidate(accelerator="", replicas=0, cost=0.0, value=0.0), 0.0, 0.0, 1.0)
            continue
        of = next(each for each in entry.candidates if each.accelerator == assignment.option.accelerator)
        candidate = msgspec.structs.replace(of, replicas=assignment.replicas, cost=assignment.cost)
        yield _Use(entry, candidate, rate_per_s, assignment.share, plan.served[name])


def _allocations(uses: Sequence[_Use]) -> dict[str, Allocation]:
    """By server, with the latencies that its share of the requests has."""
    running = [use for use in uses if use.candidate.replicas]
    told = iter(all_predicted([(use.candidate, use.own_per_s) for use in running]))
    found = {}
    for use in uses:
        candidate = next(told) if use.candidate.replicas else use.candidate
        load = use.entry.server.current_alloc.load
        found[use.entry.server.name] = Allocation(
            accelerator=candidate.accelerator,
            num_replicas=candidate.replicas,
            max_batch=candidate.batch,
            cost=candidate.cost,
            itl_average=candidate.itl_ms,
            ttft_average=candidate.ttft_ms,
            load=msgspec.structs.replace(load, arrival_rate=load.arrival_rate * use.share),
            utilization=candidate.utilization,
            share=use.share,
            served=use.served,
        )
    return found


def _within_maximum(entry: Entry) -> Entry:
    maximum = entry.server.max_num_replicas or MAX_REPLICAS
    fit = tuple(each for each in entry.candidates if each.replicas <= maximum)
    too_many = tuple(
        Rejected(each.accelerator, f"needs {each.replicas} replicas, more than maxNumReplicas {maximum}")
        for each in entry.candidates
        if each.replicas > maximum
    )
    return msgspec.structs.replace(entry, candidates=fit, rejected=entry.rejected + too_many)


def _solution(system: System, entries: Sequence[Entry], uses: Sequence[_Use]) -> Solution:
    found = _allocations(uses)
    return Solution(
        allocations=found,
        allocation_by_type=_totals(system, [use.candidate for use in uses]),
        unserved={entry.server.name: _reason(entry) for entry in entries if entry.server.name not in found},
        cost=sum(each.cost for each in found.values()),
    )


def _totals(system: System, chosen: Iterable[Candidate]) -> dict[str, TypeTotal]:
    used: dict[str, tuple[int, float]] = {}
    for candidate in chosen:
        if candidate.replicas:
            count, cost = used.get(candidate.type, (0, 0.0))
            used[candidate.type] = count + candidate.replicas * candidate.units, cost + candidate.cost
    capacity = {} if system.optimizer.unlimited else system.capacity
    limits = {kind: number for kind, number in capacity.items() if number < PLENTY}
    return {
        kind: TypeTotal(
            count=used.get(kind, (0, 0.0))[0], limit=limits.get(kind), cost=used.get(kind, (0, 0.0))[1]
        )
        for kind in sorted({*used, *limits})
    }


def _reason(entry: Entry) -> str:
    if entry.candidates:
        names = ", ".join(each.accelerator for each in entry.candidates)
        return f"{SCARCE}; it could run on {names}"
    return "; ".join(
        f"{each.accelerator}: {each.reason}" if each.accelerator else each.reason for each in entry.rejected
    ) or ("there are no accelerators")
