"""The system that the VariantAutoscalings of a cluster make, for commands."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from headgate import api, cluster
from headgate.api import marks
from headgate.controllers.planning import learning
from headgate.planning import config_maps, limits, planned_load
from headgate.planning.assembling import Assembly, Group, assemble
from headgate.planning.changing import ChangeError, Demand
from headgate.planning.config_maps import ConfigProblem, Configuration
from headgate.planning.load import Load
from headgate.planning.planned_load import PlannedLoad
from headgate.planning.replica import Profile
from headgate.planning.variants import Variant

__all__ = ["Learned", "Living", "read", "unplanned"]


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """A profile that the controller has learned and plans with, and the one that the object has."""

    profile: Profile
    spec: Profile
    observations: int


class Living(msgspec.Struct, frozen=True, kw_only=True):
    """Objects, and what is planned of them."""

    assembly: Assembly
    objects: Mapping[api.ObjectKey, api.VariantAutoscaling]
    replicas: Mapping[api.ObjectKey, int]
    """Of their Deployments, or as their status has them."""
    problems: Sequence[ConfigProblem]
    """Of all ConfigMaps."""
    others: Sequence[Demand]
    """Demands of models whose load is known without them."""
    learned: Mapping[api.ObjectKey, Learned]


async def read(
    client: cluster.Client, namespace: str | None, planning_namespace: str, demands: Sequence[Demand]
) -> Living:
    """Read the objects of a namespace (None: all), with the ConfigMaps. Loads are those that the controller
    has planned for; `demands` are by model, for others. Raises ChangeError."""
    objects = {each.metadata.key: each for each in await client.list(api.VariantAutoscaling, namespace)}
    variants = [Variant.of(each) for _, each in sorted(objects.items())]
    configuration = await _configuration(client, planning_namespace, variants)
    deployments = {each.metadata.key: each for each in await client.list(api.Deployment, namespace)}
    replicas = {key: each for key, obj in objects.items() if (each := _replicas(obj, deployments.get(key)))}
    found, problems = await _limits(client, planning_namespace, configuration)
    planned = _planned(variants, objects)
    stated, others = _stated(variants, planned, demands)
    learned = {each.key: one for each in variants if (one := _learned(each, objects[each.key])) is not None}
    assembly = assemble(
        variants,
        configuration,
        replicas=replicas,
        loads={**{group: each.load for group, each in planned.items()}, **stated},
        limits=found,
        in_use=[group for group, each in planned.items() if not each.idle],
        profiles={key: each.profile for key, each in learned.items()},
    )
    return Living(
        assembly=assembly,
        objects=objects,
        replicas=replicas,
        problems=[*configuration.problems, *problems],
        others=others,
        learned=learned,
    )


def _replicas(obj: api.VariantAutoscaling, deployment: api.Deployment | None) -> int:
    if deployment is not None:
        return deployment.spec.replicas
    current = obj.status.current_alloc if obj.status is not None else None
    return current.num_replicas if current is not None else 0


def _planned(
    variants: Sequence[Variant], objects: Mapping[api.ObjectKey, api.VariantAutoscaling]
) -> dict[Group, PlannedLoad]:
    """What the controller has planned for: all variants of a group have the same."""
    found: dict[Group, PlannedLoad] = {}
    for each in variants:
        noted = planned_load.read(objects[each.key].metadata.annotations.get(marks.PLANNED_LOAD))
        if noted is not None:
            found.setdefault(each.group, noted)
    return found


def _learned(variant: Variant, obj: api.VariantAutoscaling) -> Learned | None:
    performance = variant.performance
    if performance is None:
        return None
    decode, prefill = performance.decode_parms, performance.prefill_parms
    spec = Profile(alpha_ms=decode.alpha, beta_ms=decode.beta, gamma_ms=prefill.gamma, delta_ms=prefill.delta)
    kept = learning.kept(obj, spec)
    if kept is None:
        return None
    profile = Profile(alpha_ms=kept.alpha, beta_ms=kept.beta, gamma_ms=kept.gamma, delta_ms=kept.delta)
    return Learned(profile=profile, spec=spec, observations=kept.observations)


def _stated(
    variants: Sequence[Variant], planned: Collection[Group], demands: Sequence[Demand]
) -> tuple[dict[Group, Load], list[Demand]]:
    """Loads by demands where none is planned for, and the demands that change others. Raises ChangeError for
    a demand of nothing, or without lengths."""
    found: dict[Group, Load] = {}
    others = []
    models = sorted({each.model for each in variants})
    for demand in demands:
        groups = {each.group for each in variants if demand.of in ("", each.model)}
        if not groups:
            listed = ", ".join(models) or "none"
            raise ChangeError(f"no VariantAutoscaling has the model {demand.of}; the models are: {listed}")
        if groups.intersection(planned):
            others.append(demand)
        unknown = groups.difference(planned)
        if not unknown:
            continue
        if demand.per_min is None or demand.tokens is None:
            example = f"{demand.of or 'MODEL'}=600,512,256"
            raise ChangeError(f"a rate and the lengths of prompts and responses are needed, as in {example}")
        for group in unknown:
            found[group] = Load(
                arrivals_per_s=demand.per_min / 60,
                prompt_tokens=demand.tokens[0],
                output_tokens=demand.tokens[1],
            )
    return found, others


async def _configuration(
    client: cluster.Client, namespace: str, variants: Sequence[Variant]
) -> Configuration:
    data = [
        await _data(client, namespace, name)
        for name in (config_maps.COSTS, config_maps.CLASSES, config_maps.MAIN, config_maps.SCALE_TO_ZERO)
    ]
    places = {(place, each.class_ref[0]) for each in variants for place in (each.key.namespace, namespace)}
    others = {}
    for place in sorted(places - {(namespace, config_maps.CLASSES)}):
        found = await _data(client, *place)
        if found is not None:
            others[place] = found
    return config_maps.read(*data, namespace=namespace, other_classes=others)


async def _data(client: cluster.Client, namespace: str, name: str) -> Mapping[str, str] | None:
    try:
        return (await client.get(api.ConfigMap, name, namespace)).data
    except cluster.NotFound:
        return None


async def _limits(
    client: cluster.Client, namespace: str, configuration: Configuration
) -> tuple[dict[str, int] | None, list[ConfigProblem]]:
    """Those of the ConfigMap, with what is wrong with it; None without it."""
    data = await _data(client, namespace, limits.LIMITS)
    if data is None:
        return None, []
    return limits.of_config_map(f"{namespace}/{limits.LIMITS}", data, configuration.accelerators)


def unplanned(found: Living) -> list[str]:
    """A line for each object without a load or with problems: what runs, and what the controller decided."""
    lines = []
    for key, scaled in sorted(found.objects.items()):
        if key in found.assembly.planned:
            continue
        status = scaled.status
        desired = status.desired_optimized_alloc if status is not None else None
        decided = "nothing is decided" if desired is None else f"{desired.num_replicas} are decided"
        conditions = status.conditions if status is not None else []
        failed = [f"{each.reason}: {each.message}" for each in conditions if each.status == "False"]
        lines.append(
            f"{key}: {found.replicas.get(key, 0)} replicas now, {decided}; {'; '.join(failed)}".rstrip("; ")
        )
    return lines
