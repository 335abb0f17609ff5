"""From variants and their configuration to the system that is solved, and back to a decision for each.

Variants of one model, class and namespace share the requests: they are one demand. Servers are named
name:namespace, so that variants of the same name in two namespaces are told apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from headgate.api.meta import ObjectKey
from headgate.planning import figures, variants
from headgate.planning.config_maps import ClassKey, Configuration
from headgate.planning.lengths import MAX_SPREAD
from headgate.planning.replica import Profile
from headgate.planning.solving import SCARCE, Solution
from headgate.planning.system import (
    AllocationData,
    DecodeParms,
    Load,
    Optimizer,
    Performance,
    PrefillParms,
    Server,
    System,
)
from headgate.planning.variants import ClassFound, Variant, VariantProblem

__all__ = ["Assembly", "Decision", "Group", "assemble", "server_name"]

Group: TypeAlias = tuple[str, str]
"""A model and a namespace."""

BEST_EFFORT: Final = Optimizer(saturation_policy="PriorityExhaustive")
_MOST_PER_MINUTE: Final = 1e12


class Measured(Protocol):
    """The load of a model in a namespace."""

    @property
    def arrivals_per_s(self) -> float: ...

    @property
    def prompt_tokens(self) -> float: ...

    @property
    def output_tokens(self) -> float: ...

    @property
    def cached_share(self) -> float:
        """Of the tokens of prompts; they need no prefill."""

    @property
    def prompt_spread(self) -> float:
        """Variance of their lengths, as a multiple of the square of the mean."""

    @property
    def waiting(self) -> int:
        """Requests that no replica has taken."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Of one variant."""

    replicas: int
    accelerator: str
    """That of the variant, also without replicas."""
    cost: float
    """Cents per hour."""
    share: float
    """Of the requests of its model: its weight in routing."""
    served: float
    """Share of the requests of the model that are taken within the targets."""
    itl_ms: float
    ttft_ms: float
    """At the percentile of the class."""
    utilization: float
    unfit: str = ""
    """Why it gets no replicas whatever they cost, while other variants serve the model, or, where nothing is
    `served`, since there are too few accelerators for all of them."""


class Assembly(msgspec.Struct, frozen=True, kw_only=True):
    """A system, and the variants that are not in it or not as their objects say."""

    system: System
    planned: Mapping[ObjectKey, Variant]
    problems: Mapping[ObjectKey, tuple[VariantProblem, ...]]
    """Those that are no warnings keep a variant out of the system."""

    def decisions(self, solution: Solution) -> dict[ObjectKey, Decision | VariantProblem]:
        """For each planned variant: what to run, or why nothing could be decided."""
        return {key: _decision(variant, self.system, solution) for key, variant in self.planned.items()}


def server_name(key: ObjectKey) -> str:
    return f"{key.name}:{key.namespace}"


def assemble(
    given: Iterable[Variant],
    configuration: Configuration,
    *,
    replicas: Mapping[ObjectKey, int],
    loads: Mapping[Group, Measured],
    limits: Mapping[str, int] | None = None,
    placed: Mapping[ObjectKey, int] | None = None,
    in_use: Collection[Group] = (),
    profiles: Mapping[ObjectKey, Profile] | None = None,
    together: bool = True,
    optimizer: Optimizer = BEST_EFFORT,
) -> Assembly:
    """Put together what is solved.

    `replicas` are those that a variant has now. Variants of a group without a load are left out: nothing is
    known about them, so they keep what they have. `limits` are accelerators by type; None: there are always
    enough. `placed` are Pods that have a Node; None: all replicas have. Groups `in_use` had requests within
    their retention, so that a replica stays. `profiles` are learned ones, which come before those of the
    objects. Unless `together`, each variant is planned for the whole load, as in the reference.
    """
    ordered = sorted(given, key=lambda each: each.key)
    problems: dict[ObjectKey, list[VariantProblem]] = {each.key: list(each.problems) for each in ordered}
    classes: dict[ObjectKey, ClassFound] = {}
    for variant in ordered:
        found = _placed(variant, configuration, problems[variant.key])
        if found is not None:
            classes[variant.key] = found
    planned = [each for each in ordered if each.key in classes and each.group in loads]
    _report_different_classes(planned, classes, problems)
    if limits is not None:
        _report_unknown_limits(planned, configuration, limits, problems)
    names = _class_names(classes[each.key] for each in planned)
    kept = _kept(planned, configuration, replicas, loads, in_use)
    servers = [
        _server(
            each,
            names[classes[each.key].key],
            minimum=1 if each.key in kept else 0,
            now=replicas.get(each.key, 0),
            price=_price(each, configuration),
            load=_load(loads[each.group]),
            together=together,
        )
        for each in planned
    ]
    return Assembly(
        system=System(
            accelerators=dict(configuration.accelerators),
            performance={},
            own_performance={
                server_name(each.key): _learned(each.performance, (profiles or {}).get(each.key))
                for each in planned
                if each.performance is not None
            },
            classes={
                names[found.key]: msgspec.structs.replace(found.service_class, name=names[found.key])
                for found in (classes[each.key] for each in planned)
            },
            servers={each.name: each for each in (_with_one_load(servers) if together else servers)},
            optimizer=msgspec.structs.replace(optimizer, unlimited=limits is None),
            capacity={}
            if limits is None
            else _capacity(ordered, planned, configuration, replicas, limits, placed),
        ),
        planned={each.key: each for each in planned},
        problems={key: tuple(dict.fromkeys(each)) for key, each in problems.items() if each},
    )


def _placed(
    variant: Variant, configuration: Configuration, problems: list[VariantProblem]
) -> ClassFound | None:
    """The class of a variant that can be planned; otherwise its problems are added, all at once."""
    found = variants.class_of(variant, configuration)
    is_priced = variant.accelerator in configuration.accelerators
    if isinstance(found, VariantProblem):
        problems.append(found)
    elif found.warning is not None:
        problems.append(found.warning)
    if not is_priced:
        problems.append(variants.cost_problem(variant, configuration))
    if isinstance(found, VariantProblem) or not is_priced or variant.performance is None:
        return None
    problems.extend(variants.configuration_problems(variant, found.key, configuration))
    return found


def _report_different_classes(
    planned: Sequence[Variant],
    classes: Mapping[ObjectKey, ClassFound],
    problems: Mapping[ObjectKey, list[VariantProblem]],
) -> None:
    """Nobody knows which requests of a model belong to which of its classes."""
    groups: dict[Group, set[ClassKey]] = {}
    for variant in planned:
        groups.setdefault(variant.group, set()).add(classes[variant.key].key)
    for variant in planned:
        if len(found := groups[variant.group]) > 1:
            names = ", ".join(f"{each.key} in {each.place}" for each in sorted(found))
            told = (
                f"variants of {variant.model} in this namespace have the classes {names}; those of each one "
                "are planned for all requests; set the same spec.sloClassRef for all of them"
            )
            problems[variant.key].append(
                VariantProblem(reason="ClassesDiffer", message=told, is_warning=True)
            )


def _class_names(found: Iterable[ClassFound]) -> dict[ClassKey, str]:
    """A name for each class: its own, and where it is written if others have the same name."""
    own = {each.key: each.service_class.name for each in found}
    times = Counter(own.values())
    return {
        key: name if times[name] == 1 else f"{name} ({key.place}: {key.key})" for key, name in own.items()
    }


def _kept(
    planned: Sequence[Variant],
    configuration: Configuration,
    replicas: Mapping[ObjectKey, int],
    loads: Mapping[Group, Measured],
    in_use: Collection[Group],
) -> set[ObjectKey]:
    """The variants that keep one replica for a model without load, one for each such model."""
    groups: dict[Group, list[Variant]] = {}
    for variant in planned:
        groups.setdefault(variant.group, []).append(variant)
    kept = set()
    for group, own in groups.items():
        load = _load(loads[group])
        may_stop = configuration.scale_to_zero_of(group[0]).is_enabled and group not in in_use
        if (load.arrival_rate and load.avg_out_tokens) or (may_stop and not loads[group].waiting):
            continue
        running = [each for each in own if replicas.get(each.key, 0)]
        cheapest = min(running or own, key=lambda each: (_price(each, configuration), each.key))
        kept.add(cheapest.key)
    return kept


def _learned(performance: Performance, profile: Profile | None) -> Performance:
    if profile is None:
        return performance
    return msgspec.structs.replace(
        performance,
        decode_parms=DecodeParms(alpha=profile.alpha_ms, beta=profile.beta_ms),
        prefill_parms=PrefillParms(gamma=profile.gamma_ms, delta=profile.delta_ms),
    )


def _price(variant: Variant, configuration: Configuration) -> float:
    """Of one replica."""
    return configuration.accelerators[variant.accelerator].cost * variant.count


def _load(measured: Measured) -> Load:
    """Per minute, without the part of prompts that needs no prefill."""
    prompt = figures.measured(measured.prompt_tokens) * (
        1 - min(figures.measured(measured.cached_share), 1.0)
    )
    return Load(
        arrival_rate=min(figures.measured(measured.arrivals_per_s) * 60, _MOST_PER_MINUTE),
        avg_in_tokens=figures.tokens(prompt),
        in_tokens_spread=min(figures.measured(measured.prompt_spread), MAX_SPREAD),
        avg_out_tokens=_response(measured.output_tokens),
    )


def _response(output_tokens: float) -> float:
    """No response has less than a token; 0: none was seen."""
    length = figures.tokens(output_tokens)
    return max(1.0, length) if length else 0.0


def _server(
    variant: Variant,
    service_class: str,
    *,
    minimum: int,
    now: int,
    price: float,
    load: Load,
    together: bool,
) -> Server:
    namespace = variant.key.namespace
    return Server(
        name=server_name(variant.key),
        class_=service_class,
        model=variant.model,
        keep_accelerator=True,
        min_num_replicas=minimum,
        demand=f"{namespace} {service_class!r} {variant.model!r}" if together else "",
        current_alloc=AllocationData(
            accelerator=variant.accelerator, num_replicas=now, cost=now * price, load=load
        ),
    )


def _with_one_load(servers: Sequence[Server]) -> Iterator[Server]:
    """The loads of a demand are added up, so that only its first server keeps its own."""
    seen: set[str] = set()
    for server in servers:
        if server.demand in seen:
            load = msgspec.structs.replace(server.current_alloc.load, arrival_rate=0.0)
            current = msgspec.structs.replace(server.current_alloc, load=load)
            server = msgspec.structs.replace(server, current_alloc=current)
        seen.add(server.demand)
        yield server


def _capacity(
    given: Sequence[Variant],
    planned: Sequence[Variant],
    configuration: Configuration,
    replicas: Mapping[ObjectKey, int],
    limits: Mapping[str, int],
    placed: Mapping[ObjectKey, int] | None,
) -> dict[str, int]:
    """What planned variants may use: without the accelerators of the others, which go on running. Replicas of
    those that are only wanted do not count: nobody limits them. Of a type without a limit, variants keep what
    they have."""
    known = {each.key for each in planned}
    capacity = dict(limits)
    for variant in given:
        accelerator = configuration.accelerators.get(variant.accelerator)
        kind = accelerator.kind if accelerator is not None else variant.accelerator
        used = replicas.get(variant.key, 0) * variant.count
        if variant.key not in known:
            if placed is not None:
                used = min(used, placed.get(variant.key, 0) * variant.count)
            capacity[kind] = max(0, capacity.get(kind, 0) - used) if kind in limits else 0
        elif kind not in limits:
            capacity[kind] = capacity.get(kind, 0) + used
    return capacity


def _report_unknown_limits(
    planned: Sequence[Variant],
    configuration: Configuration,
    limits: Mapping[str, int],
    problems: Mapping[ObjectKey, list[VariantProblem]],
) -> None:
    for variant in planned:
        kind = configuration.accelerators[variant.accelerator].kind
        if kind not in limits:
            told = (
                f"it is not known how many accelerators {kind} there are, so that none are added; set the "
                f"device of {variant.accelerator} to the product that Nodes are labelled with, or set a limit"
            )
            problems[variant.key].append(
                VariantProblem(reason="CapacityUnknown", message=told, is_warning=True)
            )


def _decision(variant: Variant, system: System, solution: Solution) -> Decision | VariantProblem:
    name = server_name(variant.key)
    if name in solution.unserved:
        return _unserved(variant, system, solution)
    if name not in solution.allocations:
        raise LookupError(f"the solution has no server {name}")
    found = solution.allocations[name]
    return Decision(
        replicas=found.num_replicas,
        accelerator=variant.accelerator,
        cost=found.cost,
        share=found.share,
        served=found.served,
        itl_ms=found.itl_average,
        ttft_ms=found.ttft_average,
        utilization=found.utilization,
    )


def _unserved(variant: Variant, system: System, solution: Solution) -> Decision | VariantProblem:
    """No replicas if others serve its demand, or get all accelerators; otherwise nothing is decided."""
    name = server_name(variant.key)
    why, demand = solution.unserved[name], system.servers[name].demand
    others = [
        found
        for other, found in solution.allocations.items()
        if demand and other in system.servers and system.servers[other].demand == demand
    ]
    if not others and not _is_scarce(variant, system, solution):
        return VariantProblem(reason="OptimizationFailed", message=why)
    return Decision(
        replicas=0,
        accelerator=variant.accelerator,
        cost=0.0,
        share=0.0,
        served=max((each.served for each in others), default=0.0),
        itl_ms=0.0,
        ttft_ms=0.0,
        utilization=0.0,
        unfit=why,
    )


def _is_scarce(variant: Variant, system: System, solution: Solution) -> bool:
    """Whether its demand could be served if there were more accelerators: what it has is for others."""
    own = system.servers[server_name(variant.key)]
    return not system.optimizer.unlimited and any(
        why.startswith(SCARCE)
        for name, why in solution.unserved.items()
        if name == own.name or (own.demand and system.servers[name].demand == own.demand)
    )
