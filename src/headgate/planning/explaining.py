"""Why a plan is as it is: what binds each demand, what one replica less would do, and the next best plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from headgate.planning import planner
from headgate.planning.candidates import Candidate, Entry, all_predicted, candidates
from headgate.planning.problem import SWITCHING, Demand, Plan, Problem
from headgate.planning.queueing import late_share
from headgate.planning.replica import Profile
from headgate.planning.sizing import PERCENTILE, Infeasible, Sizer, Targets
from headgate.planning.solving import Solution, as_demand, by_demand, with_shared_loads
from headgate.planning.system import Load, System, Target

__all__ = ["Alternative", "DemandExplained", "OneLess", "Predicted", "ServerExplained", "Use", "explain"]

_ALTERNATIVE_S: Final = 1.0
"""Time to look for the next best plan of one demand."""
_WHOLE: Final = 1 - 1e-6
_AT_LIMIT: Final = 1e-9


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class Use(_Part, frozen=True, kw_only=True):
    """Replicas of one server."""

    server: str
    accelerator: str
    num_replicas: int


class Alternative(_Part, frozen=True, kw_only=True):
    """Another plan for one demand, with all others as they are."""

    uses: tuple[Use, ...]
    cost: float
    cost_diff: float


class Predicted(_Part, frozen=True, kw_only=True):
    """What requests experience, times in milliseconds."""

    ttft: float
    """The percentile of the demand, or the mean."""
    itl: float
    utilization: float
    """Of the batch."""
    attained: float | None = None
    """Share of requests that meet the target of TTFT; None without one, or without load."""


class OneLess(_Part, frozen=True, kw_only=True):
    """The same plan with one replica less of one server."""

    saves: float
    served: float
    """Share of the requests that could be taken within the targets."""
    overload: float = 0.0
    """How many times as many requests arrive as can be completed; 0: all can be."""
    predicted: Predicted | None = None
    """Of the slowest server of the demand; None in overload, and if no replica is left."""


class ServerExplained(_Part, frozen=True, kw_only=True):
    """One server with replicas; rates in requests per minute."""

    server: str
    accelerator: str
    num_replicas: int
    current_replicas: int
    """On this accelerator."""
    cost: float
    share: float
    arrival_rate: float
    """Of one replica."""
    max_arrival_rate: float
    """At which one replica still meets its targets; 0 without load."""
    binding: str
    """What limits that: ttft, itl, tps, or capacity, where no target does; empty without load."""
    predicted: Predicted
    profile: Profile | None
    """That it was sized by; None without load."""
    one_less: OneLess | None = None


class DemandExplained(_Part, frozen=True, kw_only=True):
    """The requests of one model and class, and the servers that share them."""

    model: str
    service_class: str
    priority: int
    load: Load
    target: Target | None
    percentile: float | None
    """That all TTFT are for; None: the mean."""
    cost: float
    served: float
    servers: tuple[ServerExplained, ...]
    runner_up: Alternative | None = None
    rejected: Mapping[str, str] = {}
    """Why servers or accelerators are no choice."""
    leaving: tuple[Use, ...] = ()
    """Replicas that run now, of servers that are planned to have none."""
    unserved: str = ""
    """Why nothing runs."""


def explain(
    system: System,
    solution: Solution,
    percentile: float | None = PERCENTILE,
    *,
    switching: float = SWITCHING,
    sizer: Sizer | None = None,
) -> Iterator[DemandExplained]:
    """Explain an exact solution of the system, demand by demand, the most important first.

    Demands are explained as they are asked for: each takes up to a second for each of its servers.
    """
    sizer = sizer or Sizer()
    entries = candidates(with_shared_loads(system), percentile, sizer)
    left = _left(system, solution, entries)
    groups = by_demand(entries)
    for name in sorted(groups, key=lambda name: (groups[name][0].priority, name)):
        yield _Explaining(system, solution, name, groups[name], percentile, switching, sizer).explained(left)


def _left(system: System, solution: Solution, entries: Sequence[Entry]) -> dict[str, int] | None:
    """Accelerators that nothing uses, by type; None: there are always enough."""
    if system.optimizer.unlimited:
        return None
    left = dict(system.capacity)
    for entry in entries:
        chosen = _chosen(entry, solution)
        if chosen is not None:
            left[chosen.type] = left.get(chosen.type, 0) - chosen.replicas * chosen.units
    return left


def _chosen(entry: Entry, solution: Solution) -> Candidate | None:
    """What was decided for a server; None if it has no replicas."""
    found = solution.allocations.get(entry.server.name)
    if found is None or not found.num_replicas:
        return None
    of = next((each for each in entry.candidates if each.accelerator == found.accelerator), None)
    if of is None:
        return None
    return msgspec.structs.replace(of, replicas=found.num_replicas, cost=found.cost)


class _Explaining:
    """One demand, and what was chosen for it."""

    def __init__(
        self,
        system: System,
        solution: Solution,
        name: str,
        entries: Sequence[Entry],
        percentile: float | None,
        switching: float,
        sizer: Sizer,
    ) -> None:
        self.system = system
        self.solution = solution
        self.entries = entries
        self.percentile = percentile
        self.switching = switching
        self.sizer = sizer
        self.demand = as_demand(name, entries)
        self.chosen = {
            each.server.name: found for each in entries if (found := _chosen(each, solution)) is not None
        }
        self.served = max(
            (solution.allocations[name].served for name in self.chosen),
            default=0.0 if self.demand.rate_per_s > 0 else 1.0,
        )

    def explained(self, left: dict[str, int] | None) -> DemandExplained:
        server = self.entries[0].server
        target = self.system.target(server)
        own = None if target is None else target.percentile
        return DemandExplained(
            model=server.model,
            service_class=server.service_class,
            priority=self.entries[0].priority,
            load=server.current_alloc.load,
            target=target,
            percentile=self.percentile if own is None else own,
            cost=self._cost,
            served=self.served,
            servers=tuple(self._server(entry) for entry in self.entries if entry.server.name in self.chosen),
            runner_up=self._runner_up(left),
            rejected=dict(self._rejected()),
            leaving=tuple(self._leaving()),
            unserved="" if self.chosen else self.solution.unserved.get(server.name, ""),
        )

    @property
    def _cost(self) -> float:
        return sum(each.cost for each in self.chosen.values())

    def _leaving(self) -> Iterator[Use]:
        for each in self.entries:
            name, current = each.server.name, each.server.current_alloc
            if name not in self.chosen and current.num_replicas:
                yield Use(server=name, accelerator=current.accelerator, num_replicas=current.num_replicas)

    def _rejected(self) -> Iterator[tuple[str, str]]:
        for entry in self.entries:
            for accelerator, reason in entry.rejected:
                yield f"{entry.server.name} on {accelerator}" if accelerator else entry.server.name, reason

    def _server(self, entry: Entry) -> ServerExplained:
        name = entry.server.name
        chosen, found = self.chosen[name], self.solution.allocations[name]
        current = entry.server.current_alloc
        rate_per_s = found.load.arrival_rate / 60 / chosen.replicas
        if self.served < _WHOLE:
            rate_per_s = chosen.capacity_per_s
        return ServerExplained(
            server=name,
            accelerator=chosen.accelerator,
            num_replicas=chosen.replicas,
            current_replicas=current.num_replicas if current.accelerator == chosen.accelerator else 0,
            cost=chosen.cost,
            share=found.share,
            arrival_rate=rate_per_s * 60,
            max_arrival_rate=0.0 if chosen.replica is None else chosen.capacity_per_s * 60,
            binding=_binding(chosen, self.sizer),
            predicted=Predicted(
                ttft=found.ttft_average,
                itl=found.itl_average,
                utilization=found.utilization,
                attained=_attained(chosen, rate_per_s),
            ),
            profile=None if chosen.replica is None else chosen.replica.profile,
            one_less=self._one_less(name),
        )

    def _one_less(self, name: str) -> OneLess | None:
        """None without load, where one replica less only breaks the minimum."""
        demand_per_s = self.demand.rate_per_s
        if demand_per_s <= 0:
            return None
        less = self.chosen[name]
        rest = {**self.chosen, name: msgspec.structs.replace(less, replicas=less.replicas - 1)}
        left = [each for each in rest.values() if each.replicas and each.replica is not None]
        capacity_per_s = sum(each.replicas * each.capacity_per_s for each in left)
        taken_per_s = min(demand_per_s, capacity_per_s) if self.served < _WHOLE else demand_per_s
        rates = [taken_per_s * each.capacity_per_s / capacity_per_s for each in left]
        overload = max(map(_overload, left, rates), default=0.0)
        return OneLess(
            saves=less.cost / less.replicas,
            served=min(1.0, capacity_per_s / demand_per_s),
            overload=overload if overload > 1 else 0.0,
            predicted=_together(left, rates) if left and overload <= 1 else None,
        )

    def _runner_up(self, left: dict[str, int] | None) -> Alternative | None:
        """The best plan that serves as much, without one of the servers or accelerators in use."""
        capacity = None if left is None else dict(left)
        for each in self.chosen.values():
            if capacity is not None:
                capacity[each.type] = capacity.get(each.type, 0) + each.replicas * each.units
        plans = [
            plan
            for name, each in self.chosen.items()
            if (plan := self._without(name, each.accelerator, capacity)) is not None
        ]
        if not plans:
            return None
        best = min(plans, key=lambda plan: (plan.cost + plan.switching_cost, plan.cost))
        return Alternative(
            uses=tuple(
                Use(
                    server=each.option.server,
                    accelerator=each.option.accelerator,
                    num_replicas=each.replicas,
                )
                for each in best.assignments
            ),
            cost=best.cost,
            cost_diff=best.cost - self._cost,
        )

    def _without(self, server: str, accelerator: str, capacity: dict[str, int] | None) -> Plan | None:
        options = tuple(
            each for each in self.demand.options if (each.server, each.accelerator) != (server, accelerator)
        )
        if not options:
            return None
        demand: Demand = msgspec.structs.replace(self.demand, options=options)
        problem = Problem(
            demands=(demand,),
            capacity=capacity,
            best_effort=self.served < _WHOLE,
            switching=self.switching,
        )
        plan = planner.plan(problem, _ALTERNATIVE_S)
        return plan if plan.served[demand.name] >= self.served * _WHOLE and plan.assignments else None


def _binding(candidate: Candidate, sizer: Sizer) -> str:
    if candidate.replica is None or candidate.targets is None:
        return ""
    (sizing,) = sizer.sizes([(candidate.replica, candidate.targets)])
    if isinstance(sizing, Infeasible):
        return ""
    is_at_limit = sizing.rate_per_s >= candidate.replica.max_rate_per_s * (1 - _AT_LIMIT)
    return "capacity" if is_at_limit else sizing.binding


def _overload(candidate: Candidate, rate_per_s: float) -> float:
    """Arrivals of one replica, compared with the most that it completes."""
    return rate_per_s / candidate.replica.max_rate_per_s if candidate.replica is not None else 0.0


def _together(servers: Sequence[Candidate], rates_per_s: Sequence[float]) -> Predicted:
    """The slowest of the servers of a demand, and all of its requests; rates are those of one replica."""
    found = all_predicted(list(zip(servers, rates_per_s, strict=True)))
    met = [_attained(each, rate) for each, rate in zip(servers, rates_per_s, strict=True)]
    weights = [each.replicas * rate for each, rate in zip(servers, rates_per_s, strict=True)]
    total = sum((share or 0.0) * weight for share, weight in zip(met, weights, strict=True))
    return Predicted(
        ttft=max(each.ttft_ms for each in found),
        itl=max(each.itl_ms for each in found),
        utilization=max(each.utilization for each in found),
        attained=None if None in met else total / sum(weights),
    )


def _attained(candidate: Candidate, rate_per_s: float) -> float | None:
    """Share of requests that meet the target of TTFT at a rate of one replica; None without both."""
    targets: Targets | None = candidate.targets
    if candidate.replica is None or targets is None or not targets.ttft_ms or rate_per_s <= 0:
        return None
    rate_per_s = min(rate_per_s, candidate.replica.max_rate_per_s)
    return 1 - late_share(candidate.replica, rate_per_s, targets.ttft_ms)
