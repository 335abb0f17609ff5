"""What a server could run on: for each accelerator, the replicas that it needs, their cost and latencies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from headgate.planning.problem import MAX_REPLICAS
from headgate.planning.queueing import Analysis, analyze_all
from headgate.planning.replica import LEAST_MS, QUEUE_TO_BATCH, ModelError, Profile, Replica
from headgate.planning.sizing import PERCENTILE, Infeasible, Sizer, Sizing, Targets, fewest
from headgate.planning.system import Accelerator, AllocationData, Performance, Server, System, Target

__all__ = ["Candidate", "Entry", "Rejected", "all_predicted", "candidates", "predicted", "transition_penalty"]

_MOVING: Final = 0.1
"""Price of another accelerator, as a share of the costs before and after."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A server on an accelerator. A server that needs no replicas has the accelerator ""."""

    accelerator: str
    type: str = ""
    units: int = 0
    """Devices of this type for one replica."""
    replicas: int
    batch: int = 0
    cost: float
    value: float
    """How much worse it is than what runs now; negative: better."""
    itl_ms: float = 0.0
    ttft_ms: float = 0.0
    """The mean, or the percentile of the targets."""
    utilization: float = 0.0
    capacity_per_s: float = 0.0
    """Requests that one replica takes."""
    replica: Replica | None = None
    """None without load."""
    targets: Targets | None = None
    """That it was sized for; `ttft_ms` is for their percentile."""

    def is_saturated(self, rate_per_min: float) -> bool:
        """Whether the rate exceeds what all replicas take."""
        return rate_per_min > self.replicas * self.capacity_per_s * 60


class Rejected(NamedTuple):
    accelerator: str
    reason: str


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A server with its candidates, best first."""

    server: Server
    priority: int
    rate_per_s: float
    """Requests, or what the target of throughput asks for, if that is more."""
    candidates: tuple[Candidate, ...]
    rejected: tuple[Rejected, ...] = ()


def transition_penalty(current: AllocationData, accelerator: str, replicas: int, cost: float) -> float:
    """What a change costs: the difference, and a tenth of both costs if the accelerator is another one."""
    if current.accelerator == accelerator:
        return 0.0 if current.num_replicas == replicas else cost - current.cost
    return _MOVING * (current.cost + cost) + cost - current.cost


def candidates(
    system: System, percentile: float | None = PERCENTILE, sizer: Sizer | None = None
) -> list[Entry]:
    """Size all servers on all accelerators that they may use.

    `percentile` is for targets without their own; None: their mean.
    """
    profiled: dict[str, list[str]] = {}
    for model, accelerator in system.performance:
        if accelerator in system.accelerators:
            profiled.setdefault(model, []).append(accelerator)
    tries = [
        _tries(system, server, profiled.get(server.model, []), percentile)
        for server in system.servers.values()
    ]
    servers = list(system.servers.values())
    sizer = sizer or Sizer()
    tries = _possible(servers, tries, sizer)
    results = iter(sizer.sizes(_wanted(tries)))
    rows = [
        [_found(server, each, results) for each in one] for server, one in zip(servers, tries, strict=True)
    ]
    found = _with_latencies(servers, rows)
    return [_entry(system, server, one) for server, one in zip(servers, found, strict=True)]


class _Try(NamedTuple):
    accelerator: Accelerator
    performance: Performance
    replica: Replica | None
    """None: the server has no load."""
    targets: Targets


def _wanted(tries: Sequence[Sequence[_Try | Rejected]]) -> list[tuple[Replica, Targets]]:
    return [
        (each.replica, each.targets)
        for one in tries
        for each in one
        if isinstance(each, _Try) and each.replica is not None
    ]


def _possible(
    servers: Sequence[Server], tries: list[list[_Try | Rejected]], sizer: Sizer
) -> list[list[_Try | Rejected]]:
    """Prompts count as equal for demands that nothing could serve otherwise: where too many are too long for
    every accelerator, a plan for the mean prompt is better than none."""
    results = iter(sizer.sizes(_wanted(tries)))
    served: set[tuple[str, str]] = set()
    for server, one in zip(servers, tries, strict=True):
        for each in one:
            has_load = isinstance(each, _Try) and each.replica is not None
            if has_load and isinstance(next(results), Sizing):
                served.add(_demand_of(server))
    return [
        one if _demand_of(server) in served else [_with_equal_prompts(each) for each in one]
        for server, one in zip(servers, tries, strict=True)
    ]


def _demand_of(server: Server) -> tuple[str, str]:
    return server.demand, "" if server.demand else server.name


def _with_equal_prompts(each: _Try | Rejected) -> _Try | Rejected:
    if isinstance(each, Rejected) or each.replica is None:
        return each
    return each._replace(replica=msgspec.structs.replace(each.replica, prompt_spread=0.0))


def _tries(
    system: System, server: Server, names: Sequence[str], percentile: float | None
) -> list[_Try | Rejected]:
    """`names` are the accelerators with a profile of the model."""
    current = server.current_alloc.accelerator
    if server.keep_accelerator and current:
        if current not in system.accelerators:
            return [Rejected(current, f"keepAccelerator: there is no accelerator {current}")]
        names = [current]
    target = system.target(server)
    if target is None:
        return [Rejected("", f"class {server.service_class} has no target for the model {server.model}")]
    if not names:
        return [Rejected("", f"no accelerator has a profile of {server.model}")]
    return [_try(system, server, target, name, percentile) for name in names]


def _try(
    system: System, server: Server, target: Target, name: str, percentile: float | None
) -> _Try | Rejected:
    performance = system.profile(server, name)
    if performance is None:
        return Rejected(name, f"there is no profile of {server.model}")
    targets = Targets(
        ttft_ms=target.ttft,
        itl_ms=target.itl,
        tokens_per_s=target.tps,
        percentile=percentile if target.percentile is None else target.percentile,
    )
    load = server.current_alloc.load
    try:
        replica = _replica(server, performance) if load.arrival_rate and load.avg_out_tokens else None
    except ModelError as error:
        return Rejected(name, str(error))
    return _Try(system.accelerators[name], performance, replica, targets)


def _profile(performance: Performance) -> Profile:
    return Profile(
        alpha_ms=performance.decode_parms.alpha,
        beta_ms=performance.decode_parms.beta,
        gamma_ms=performance.prefill_parms.gamma,
        delta_ms=performance.prefill_parms.delta,
    )


def _replica(server: Server, performance: Performance) -> Replica:
    load = server.current_alloc.load
    batch = server.max_batch_size or performance.max_batch_size
    if not server.max_batch_size and performance.at_tokens:
        batch = max(int(performance.max_batch_size * performance.at_tokens // load.avg_out_tokens), 1)
    return Replica(
        profile=_profile(performance),
        input_tokens=load.avg_in_tokens,
        output_tokens=load.avg_out_tokens,
        max_batch=batch,
        max_queue=QUEUE_TO_BATCH * batch,
        prompt_spread=load.in_tokens_spread,
    )


def _found(
    server: Server, each: _Try | Rejected, results: Iterator[Sizing | Infeasible]
) -> Candidate | Rejected:
    if isinstance(each, Rejected):
        return each
    if each.replica is None:
        return _idle(server, each)
    return _sized(server, each, each.replica, next(results))


def _with_latencies(
    servers: Sequence[Server], rows: Sequence[Sequence[Candidate | Rejected]]
) -> list[list[Candidate | Rejected]]:
    """Those of all candidates, at the rates that their replicas would have."""
    loads = [
        (each, _rate_per_s(server, each.targets.tokens_per_s) / each.replicas)
        for server, row in zip(servers, rows, strict=True)
        for each in row
        if isinstance(each, Candidate) and each.targets is not None
    ]
    told = iter(all_predicted(loads))
    return [
        [next(told) if isinstance(each, Candidate) and each.targets is not None else each for each in row]
        for row in rows
    ]


def _entry(system: System, server: Server, row: Sequence[Candidate | Rejected]) -> Entry:
    found: list[Candidate] = []
    rejected: list[Rejected] = []
    target = system.target(server)
    for one in row:
        if isinstance(one, Rejected):
            rejected.append(one)
        elif one.accelerator or one not in found:
            found.append(one)
    return Entry(
        server=server,
        priority=system.priority(server),
        rate_per_s=_rate_per_s(server, target.tps if target is not None else 0.0),
        candidates=tuple(sorted(found, key=lambda each: (each.value, each.cost, each.accelerator))),
        rejected=tuple(rejected),
    )


def _sized(server: Server, each: _Try, replica: Replica, sizing: Sizing | Infeasible) -> Candidate | Rejected:
    if isinstance(sizing, Infeasible):
        return Rejected(each.accelerator.name, sizing.message)
    rate_per_s = _rate_per_s(server, each.targets.tokens_per_s)
    number = fewest(rate_per_s, sizing.capacity_per_s, server.min_num_replicas)
    if number > MAX_REPLICAS:
        return Rejected(each.accelerator.name, f"needs {number} replicas, more than {MAX_REPLICAS}")
    cost = each.accelerator.cost * each.performance.count * number
    return Candidate(
        accelerator=each.accelerator.name,
        type=each.accelerator.kind,
        units=each.performance.count * max(each.accelerator.multiplicity, 1),
        replicas=number,
        batch=replica.max_batch,
        cost=cost,
        value=transition_penalty(server.current_alloc, each.accelerator.name, number, cost),
        capacity_per_s=sizing.capacity_per_s,
        replica=replica,
        targets=each.targets,
    )


def predicted(candidate: Candidate, rate_per_s: float) -> Candidate:
    """With the latencies at a rate of each replica; those of an idle one without load."""
    return all_predicted([(candidate, rate_per_s)])[0]


def all_predicted(loads: Sequence[tuple[Candidate, float]]) -> list[Candidate]:
    """The same for many candidates together, in order."""
    known = [
        (candidate, candidate.replica, rate_per_s)
        for candidate, rate_per_s in loads
        if candidate.replica is not None and rate_per_s > 0
    ]
    told = iter(
        analyze_all(
            [
                (replica, min(rate_per_s, replica.max_rate_per_s), _percentile(candidate) or PERCENTILE)
                for candidate, replica, rate_per_s in known
            ]
        )
    )
    return [
        candidate if candidate.replica is None or rate_per_s <= 0 else _with_latency(candidate, next(told))
        for candidate, rate_per_s in loads
    ]


def _percentile(candidate: Candidate) -> float | None:
    return candidate.targets.percentile if candidate.targets is not None else None


def _with_latency(candidate: Candidate, found: Analysis) -> Candidate:
    is_mean = _percentile(candidate) is None
    return msgspec.structs.replace(
        candidate,
        itl_ms=found.itl_ms if is_mean else found.stalled_itl_ms,
        ttft_ms=found.ttft_ms if is_mean else found.stalled_ttft_percentile_ms,
        utilization=found.utilization,
    )


def _rate_per_s(server: Server, tokens_per_s: float) -> float:
    """Unlike the reference, a target of throughput does not hide that more requests arrive."""
    load = server.current_alloc.load
    if not load.avg_out_tokens:
        return 0.0
    return max(load.arrival_rate / 60, tokens_per_s / load.avg_out_tokens if load.arrival_rate else 0.0)


def _idle(server: Server, each: _Try) -> Candidate:
    """Without load, the minimum; on no accelerator if that is 0."""
    if not server.min_num_replicas:
        return Candidate(accelerator="", replicas=0, cost=0.0, value=0.0)
    batch = server.max_batch_size or each.performance.max_batch_size
    profile = _profile(each.performance)
    cost = each.accelerator.cost * each.performance.count * server.min_num_replicas
    token_ms, prefill_ms = profile.alpha_ms + profile.beta_ms, profile.gamma_ms + profile.delta_ms
    full_ms = prefill_ms + profile.alpha_ms + profile.beta_ms * batch
    return Candidate(
        accelerator=each.accelerator.name,
        type=each.accelerator.kind,
        units=each.performance.count * max(each.accelerator.multiplicity, 1),
        replicas=server.min_num_replicas,
        batch=batch,
        cost=cost,
        value=transition_penalty(server.current_alloc, each.accelerator.name, server.min_num_replicas, cost),
        itl_ms=token_ms,
        ttft_ms=prefill_ms,
        capacity_per_s=1000 * batch / max(full_ms, LEAST_MS),
    )
