"""The system that the VariantAutoscalings of a cluster make, for commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headgate import api, cluster
from headgate.planning import config_maps, limits
from headgate.planning.assembling import Assembly, Group, assemble
from headgate.planning.changing import ChangeError, Demand
from headgate.planning.config_maps import ConfigProblem, Configuration
from headgate.planning.variants import Variant

__all__ = ["Living", "Stated", "read", "unplanned"]


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """A load as an option gives it."""

    arrivals_per_s: float
    prompt_tokens: float
    output_tokens: float
    cached_share: float = 0.0
    waiting: int = 0


class Living(msgspec.Struct, frozen=True, kw_only=True):
    """Objects, and what is planned of them."""

    assembly: Assembly
    objects: Mapping[api.ObjectKey, api.VariantAutoscaling]
    replicas: Mapping[api.ObjectKey, int]
    """Of their Deployments, where they have one."""
    problems: Sequence[ConfigProblem]
    """Of all ConfigMaps."""


async def read(
    client: cluster.Client, namespace: str | None, planning_namespace: str, demands: Sequence[Demand]
) -> Living:
    """Read the objects of a namespace (None: all), with the ConfigMaps; `demands` are by model."""
    objects = {each.metadata.key: each for each in await client.list(api.VariantAutoscaling, namespace)}
    variants = [Variant.of(each) for _, each in sorted(objects.items())]
    configuration = await _configuration(client, planning_namespace, variants)
    deployments = {each.metadata.key: each for each in await client.list(api.Deployment, namespace)}
    replicas = {key: deployments[key].spec.replicas for key in objects if key in deployments}
    found, problems = await _limits(client, planning_namespace, configuration)
    assembly = assemble(
        variants, configuration, replicas=replicas, loads=_loads(variants, demands), limits=found
    )
    return Living(
        assembly=assembly,
        objects=objects,
        replicas=replicas,
        problems=[*configuration.problems, *problems],
    )


def _loads(variants: Sequence[Variant], demands: Sequence[Demand]) -> dict[Group, Stated]:
    """Raises ChangeError for a demand of nothing, or without lengths."""
    found: dict[Group, Stated] = {}
    models = sorted({each.model for each in variants})
    for demand in demands:
        if demand.per_min is None or demand.tokens is None:
            example = f"{demand.of or 'MODEL'}=600,512,256"
            raise ChangeError(f"a rate and the lengths of prompts and responses are needed, as in {example}")
        groups = {each.group for each in variants if demand.of in ("", each.model)}
        if not groups:
            listed = ", ".join(models) or "none"
            raise ChangeError(f"no VariantAutoscaling has the model {demand.of}; the models are: {listed}")
        for group in groups:
            found[group] = Stated(
                arrivals_per_s=demand.per_min / 60,
                prompt_tokens=demand.tokens[0],
                output_tokens=demand.tokens[1],
            )
    return found


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
