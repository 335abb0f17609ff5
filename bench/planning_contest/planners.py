"""The contestants that plan by the queueing model: ours, and the reference with its loop and its sizing."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from headgate.planning import Sizer, solving, steadiness
from headgate.planning.candidates import candidates
from headgate.planning.load import Load as Measured
from headgate.planning.load import LoadFilter, of_signals
from headgate.planning.sizing import PERCENTILE
from headgate.planning.solving import Solution
from headgate.planning.steadiness import Steadiness
from headgate.planning.system import (
    Accelerator,
    AllocationData,
    Load,
    Optimizer,
    Server,
    ServiceClass,
    System,
    Target,
)
from planning_contest.model_fleet import Model, ModelFleet
from planning_contest.running import Decision, Key, Setting

__all__ = ["PERIOD_S", "Headgate", "Reference", "begins_with"]

PERIOD_S: Final = 60.0
"""GLOBAL_OPT_INTERVAL."""
RISEN, RISEN_PER_S = 1.2, 0.2
"""Ours plans at once for a load that is larger by this factor, and by so many requests per second."""
_PLENTY: Final = 10_000


class Headgate:
    """Loads by the signals of gateways once a second, all variants planned together for a percentile, fewer
    replicas only once so few were wanted for a while, and requests spread by the plan."""

    def __init__(
        self,
        setting: Setting,
        only: Sequence[str] | None = None,
        *,
        window_s: float | None = None,
        percentile: float = PERCENTILE,
        ttft_scale: float = 1.0,
        tpot_scale: float = 1.0,
    ) -> None:
        """`only`: the variants that it may use. `window_s`: how long fewer replicas must have sufficed, by
        default as the controller chooses it. It is told the percentile of the class, and by the scales other
        targets than hold, to pay more or less."""
        self.plan_s: list[float] = []
        told = [_told(each, ttft_scale, tpot_scale) for each in setting.models]
        self._setting = setting._replace(models=told)
        self._percentile = percentile
        self._names = [each.name for each in setting.variants if only is None or each.name in only]
        self._filters = {model.name: LoadFilter() for model in setting.models}
        self._steady: dict[Key, Steadiness] = {}
        self._window_s = window_s
        self._sizer = Sizer()
        self._planned_for: dict[str, Measured] = {}
        self._due = -math.inf

    def look(self, now: float, fleets: Mapping[str, ModelFleet]) -> Decision | None:
        loads = {
            name: self._filters[name].add(of_signals(each.metrics(now)), now) for name, each in fleets.items()
        }
        if now < self._due and not self._has_risen(loads):
            return None
        self._due, self._planned_for = now + PERIOD_S, loads
        system = _system(
            self._setting,
            self._names,
            {
                name: _load(each.arrivals_per_s, each.prompt_tokens, each.output_tokens, each.prompt_spread)
                for name, each in loads.items()
            },
            fleets,
            is_joint=True,
        )
        begins = time.process_time()
        solution = solving.exactly(system, self._percentile, sizer=self._sizer)
        self.plan_s.append(time.process_time() - begins)
        return Decision(
            {key: n for name in fleets for key, n in self._steadied(name, solution, fleets, now)},
            self._weights(system),
        )

    def _has_risen(self, loads: Mapping[str, Measured]) -> bool:
        for name, load in loads.items():
            before = self._planned_for[name].arrivals_per_s
            more = load.arrivals_per_s - before
            if more > RISEN_PER_S and load.arrivals_per_s > RISEN * before:
                return True
        return False

    def _steadied(
        self, model: str, solution: Solution, fleets: Mapping[str, ModelFleet], now: float
    ) -> list[tuple[Key, int]]:
        """As the controller writes replicas."""
        current, ready = fleets[model].current, fleets[model].ready
        window_s = self._window_s
        if window_s is None:
            window_s = steadiness.window_s(self._planned_for[model].dispersion)
        # As for the controller: a variant that cannot meet the targets gets none if others can.
        is_served = any(_server_name(model, name) in solution.allocations for name in self._names)
        kept = dict.fromkeys(current, 0) if is_served else current
        planned = {name: _replicas(solution, model, name, kept[name]) for name in self._names}
        decided = []
        for name in self._names:
            key, wanted = (model, name), planned[name]
            is_taken_over = all(ready[other] >= planned[other] for other in self._names if other != name)
            if wanted < current[name] and not is_taken_over:
                wanted = current[name]
            if key not in self._steady:
                self._steady[key] = Steadiness()
                self._steady[key].decide(current[name], now, window_s)
            steady = self._steady[key].decide(wanted, now, window_s)
            decided.append((key, min(steady, max(current[name], wanted))))
        return decided

    def _weights(self, system: System) -> dict[Key, float]:
        """What one replica takes: where the planned replicas run, these are the planned shares."""
        entries = candidates(solving.with_shared_loads(system), self._percentile, self._sizer)
        return {
            (entry.server.model, each.accelerator): each.capacity_per_s
            for entry in entries
            for each in entry.candidates
            if each.accelerator
        }


class Reference:
    """llm-d's first optimizer: the requests that ended in the last minute, sized for means, every minute.

    Its Prometheus is exact and never late here, and its HPA acts at once.
    """

    def __init__(
        self, setting: Setting, only: Sequence[str] | None = None, *, is_greedy: bool = False
    ) -> None:
        """Each variant is an object that is planned for all requests of the model; if `is_greedy`, a model is
        one object that may use any accelerator, by the optimizer for limited capacity."""
        self.plan_s: list[float] = []
        self._setting = setting
        self._names = [each.name for each in setting.variants if only is None or each.name in only]
        self._is_greedy = is_greedy
        self._sizer = Sizer()
        self._completions = {model.name: Completions() for model in setting.models}
        self._due = 0.0

    def look(self, now: float, fleets: Mapping[str, ModelFleet]) -> Decision | None:
        if now < self._due:
            return None
        self._due = now + PERIOD_S
        loads = {name: self._completions[name].load(each, now) for name, each in fleets.items()}
        if not now:
            return None
        build = _one_object if self._is_greedy else _system
        system = build(self._setting, self._names, loads, fleets)
        begins = time.process_time()
        solution = solving.as_reference(system, sizer=self._sizer)
        self.plan_s.append(time.process_time() - begins)
        if not self._is_greedy:
            return Decision(
                {
                    (model, name): _replicas(solution, model, name, fleets[model].current[name])
                    for model in fleets
                    for name in self._names
                }
            )
        found: dict[Key, int] = {}
        for model, fleet in fleets.items():
            found |= self._moved(model, fleet, solution)
        return Decision(found)

    def _moved(self, model: str, fleet: ModelFleet, solution: Solution) -> dict[Key, int]:
        """To its accelerator; those that run on others stay until it has its replicas, as in a rollout."""
        own = solution.allocations.get(model)
        if own is None or not own.num_replicas:
            return {}
        is_taken_over = fleet.ready[own.accelerator] >= own.num_replicas
        return {
            (model, name): own.num_replicas
            if name == own.accelerator
            else 0
            if is_taken_over
            else fleet.current[name]
            for name in self._names
        }


class Completions:
    """The load by requests that ended in the last minute, with the lengths that they had."""

    def __init__(self) -> None:
        self._past: deque[tuple[float, int, int, int]] = deque()

    def load(self, fleet: ModelFleet, now: float) -> Load:
        ledger = fleet.ledger
        state = (now, ledger.finished, ledger.finished_prompt, ledger.finished_output)
        self._past.append(state)
        while len(self._past) > 1 and self._past[1][0] <= now - PERIOD_S:
            self._past.popleft()
        before = self._past[0]
        finished = state[1] - before[1]
        if not finished:
            return Load()
        return _load(
            finished / PERIOD_S, (state[2] - before[2]) / finished, (state[3] - before[3]) / finished
        )


def begins_with(setting: Setting, only: Sequence[str] | None = None) -> dict[Key, int]:
    """The cheapest replicas for the mean load of each trace."""
    names = [each.name for each in setting.variants if only is None or each.name in only]
    loads = {}
    for model in setting.models:
        count = len(model.works)
        prompt = sum(each.uncached_tokens for each in model.works) / count
        response = sum(each.output_tokens for each in model.works) / count
        loads[model.name] = _load(count / model.works[-1].at_s, prompt, response)
    solution = solving.exactly(_system(setting, names, loads, {}, is_joint=True))
    return {
        (model.name, name): _replicas(solution, model.name, name, 1 if setting.capacity is None else 0)
        for model in setting.models
        for name in names
    }


def _told(model: Model, ttft_scale: float, tpot_scale: float) -> Model:
    slo = msgspec.structs.replace(
        model.slo, ttft_s=model.slo.ttft_s * ttft_scale, tpot_s=model.slo.tpot_s * tpot_scale
    )
    return model._replace(slo=slo)


def _load(per_s: float, prompt: float, response: float, spread: float = 0.0) -> Load:
    return Load(
        arrival_rate=60 * per_s,
        avg_in_tokens=_rounded(prompt),
        in_tokens_spread=_rounded(spread),
        avg_out_tokens=_rounded(max(response, 1.0)),
    )


def _rounded(value: float) -> float:
    """To three digits, as the controller does."""
    return round(value, 2 - math.floor(math.log10(value))) if value > 0 else 0.0


def _server_name(model: str, variant: str) -> str:
    return f"{model}/{variant}"


def _replicas(solution: Solution, model: str, variant: str, before: int) -> int:
    found = solution.allocations.get(_server_name(model, variant))
    return before if found is None else found.num_replicas


def _system(
    setting: Setting,
    names: Sequence[str],
    loads: Mapping[str, Load],
    fleets: Mapping[str, ModelFleet],
    *,
    is_joint: bool = False,
) -> System:
    """A server for each variant: those of one model share its load if `is_joint`. Otherwise each has all of
    it, and keeps a replica."""
    costs = {each.name: each.cost for each in setting.variants}
    servers = {}
    for model in setting.models:
        for index, name in enumerate(names):
            load = loads[model.name]
            is_first = index == 0
            is_kept = not load.arrival_rate and name == min(names, key=lambda each: costs[each])
            current = fleets[model.name].current[name] if fleets else 0
            server = Server(
                name=_server_name(model.name, name),
                class_=model.name,
                model=model.name,
                keep_accelerator=True,
                min_num_replicas=1 if len(names) == 1 or is_kept or not is_joint else 0,
                demand=model.name if is_joint else "",
                current_alloc=AllocationData(
                    accelerator=name,
                    num_replicas=current,
                    cost=costs[name] * current,
                    load=load if is_first or not is_joint else Load(),
                ),
            )
            servers[server.name] = server
    is_limited = is_joint and setting.capacity is not None
    optimizer = Optimizer(unlimited=not is_limited, saturation_policy="PriorityExhaustive")
    return _described(setting, servers, optimizer, setting.capacity if is_limited else None)


def _one_object(
    setting: Setting, names: Sequence[str], loads: Mapping[str, Load], fleets: Mapping[str, ModelFleet]
) -> System:
    """A server for each model, on any accelerator."""
    costs = {each.name: each.cost for each in setting.variants}
    servers = {}
    for model in setting.models:
        current = fleets[model.name].current
        most = max(names, key=lambda name: (current[name] * costs[name], name))
        servers[model.name] = Server(
            name=model.name,
            class_=model.name,
            model=model.name,
            min_num_replicas=1,
            current_alloc=AllocationData(
                accelerator=most if current[most] else "",
                num_replicas=current[most],
                cost=costs[most] * current[most],
                load=loads[model.name],
            ),
        )
    capacity = setting.capacity or dict.fromkeys(costs, _PLENTY)
    return _described(setting, servers, Optimizer(saturation_policy="PriorityExhaustive"), capacity)


def _described(
    setting: Setting, servers: Mapping[str, Server], optimizer: Optimizer, capacity: Mapping[str, int] | None
) -> System:
    return System(
        accelerators={each.name: Accelerator(name=each.name, cost=each.cost) for each in setting.variants},
        performance=dict(setting.performance),
        classes={
            model.name: ServiceClass(
                name=model.name,
                priority=model.priority,
                model_targets=[
                    Target(model=model.name, itl=1000 * model.slo.tpot_s, ttft=1000 * model.slo.ttft_s)
                ],
            )
            for model in setting.models
        },
        servers=dict(servers),
        optimizer=optimizer,
        capacity=dict(capacity or {}),
    )
