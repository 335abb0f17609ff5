"""VariantAutoscalings as planning takes them, with what is wrong with them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from headgate import api
from headgate.api.llmd import VariantAutoscalingSpec
from headgate.planning.config_maps import CLASSES, COSTS, ClassKey, Configuration
from headgate.planning.config_values import decimal
from headgate.planning.replica import MAX_BATCH
from headgate.planning.system import (
    Accelerator,
    DecodeParms,
    Performance,
    PrefillParms,
    ServiceClass,
)
from headgate.planning.variants import ACCELERATOR_LABEL

INVALID_PROFILE, INVALID_CONFIGURATION = "InvalidProfile", "InvalidConfiguration"
COST_MISSING, SLO_NOT_FOUND = "CostMissing", "SLONotFound"
_LARGEST_MS: Final = 1e9
_MOST_UNITS: Final = 1024


class Problem(NamedTuple):
    """Why a variant is not planned."""

    reason: str
    message: str


class Variant(NamedTuple):
    """One that can be planned."""

    key: api.ObjectKey
    spec: VariantAutoscalingSpec
    accelerator: Accelerator
    performance: Performance
    class_key: str
    service_class: ServiceClass
    remarks: tuple[str, ...]
    """What is odd, but does no harm."""

    @property
    def name(self) -> str:
        """Unique in the cluster."""
        return f"{self.key.name}:{self.key.namespace}"

    @property
    def replica_cost(self) -> float:
        """Cents per hour."""
        return self.accelerator.cost * self.performance.count


def variant_of(
    obj: api.VariantAutoscaling, configuration: Configuration, namespace: str
) -> Variant | Problem:
    """`namespace` is that of the ConfigMaps."""
    spec, key = obj.spec, obj.metadata.key
    name = spec.accelerator
    if len(name) < 2:
        told = (
            f"spec.accelerator: {name!r} is too short for a status; give accelerators at least 2 characters"
        )
        return Problem(INVALID_CONFIGURATION, told)
    accelerator = configuration.accelerators.get(name)
    if accelerator is None:
        return Problem(COST_MISSING, _no_cost(name, configuration, namespace))
    found = _class_of(obj, configuration, namespace)
    if isinstance(found, Problem):
        return found
    class_key, service_class, remarks = found
    performance = _performance(obj)
    if isinstance(performance, Problem):
        return performance
    label = obj.metadata.labels.get(ACCELERATOR_LABEL)
    if label is not None and label != name:
        remarks = (
            *remarks,
            f"the label {ACCELERATOR_LABEL} says {label[:64]}, but spec.accelerator counts, which is {name}",
        )
    return Variant(key, spec, accelerator, performance, str(class_key), service_class, remarks)


def _performance(obj: api.VariantAutoscaling) -> Performance | Problem:
    profile, count = obj.spec.variant_profile, obj.spec.accelerator_count
    place = "spec.variantProfile"
    problems: list[str] = []

    def number(of: str, given: Mapping[str, str], name: str) -> float:
        field = f"{place}.perfParms.{of}"
        if name not in given:
            problems.append(f'{field}: has no "{name}"')
            return 0.0
        value = decimal(given[name], most=_LARGEST_MS)
        if value is None:
            problems.append(f'{field}[{name}]: "{given[name][:64]}" is not a number of milliseconds')
        return value or 0.0

    decode, prefill = profile.perf_parms.decode_parms, profile.perf_parms.prefill_parms
    found = Performance(
        name=obj.spec.model_id,
        acc=obj.spec.accelerator,
        acc_count=min(count, _MOST_UNITS),
        max_batch_size=min(profile.max_batch_size, MAX_BATCH),
        decode_parms=DecodeParms(
            alpha=number("decodeParms", decode, "alpha"), beta=number("decodeParms", decode, "beta")
        ),
        prefill_parms=PrefillParms(
            gamma=number("prefillParms", prefill, "gamma"), delta=number("prefillParms", prefill, "delta")
        ),
    )
    if count > _MOST_UNITS:
        problems.append(f"spec.acceleratorCount: {count} is more than {_MOST_UNITS}")
    if profile.max_batch_size > MAX_BATCH:
        problems.append(f"{place}.maxBatchSize: {profile.max_batch_size} is more than {MAX_BATCH}")
    if not problems and not found.decode_parms.alpha and not found.decode_parms.beta:
        problems.append(f"{place}.perfParms.decodeParms: alpha and beta are 0, so tokens would take no time")
    return Problem(INVALID_PROFILE, "; ".join(problems)) if problems else found


def _no_cost(name: str, configuration: Configuration, namespace: str) -> str:
    place = f"{namespace}/{COSTS}"
    of_key = [
        each.message for each in configuration.problems if each.config_map == place and each.key == name
    ]
    whole = [each.message for each in configuration.problems if each.config_map == place and not each.key]
    if of_key or whole:
        return "; ".join(of_key or whole)
    known = ", ".join(sorted(configuration.accelerators)[:20]) or "none"
    return f'spec.accelerator: ConfigMap {place} has no cost for "{name}"; there are costs for {known}'


def _class_of(
    obj: api.VariantAutoscaling, configuration: Configuration, namespace: str
) -> tuple[ClassKey, ServiceClass, tuple[str, ...]] | Problem:
    """The class that the object names. The reference ignores the name and takes a class with the model:
    objects that were written for it often name none that exists."""
    model, of = obj.spec.model_id, obj.spec.slo_class_ref
    key = ClassKey(namespace, of.name, of.key)
    own = configuration.classes.get(key)
    causes = _causes(key, model, configuration)
    if own is not None:
        if _has(own, model):
            return key, own, ()
        told = (
            f"spec.sloClassRef: class {own.name} ({of.name}, key {of.key}) has no usable targets for {model}"
        )
        return Problem(SLO_NOT_FOUND, "; ".join((told, *causes)))
    fitting = [
        (each.rank, other)
        for other, each in configuration.classes.items()
        if other[:2] == (namespace, CLASSES) and _has(each, model)
    ]
    if fitting and not causes:
        _, other = min(fitting)
        found = configuration.classes[other]
        remark = f"spec.sloClassRef names no class that exists; class {found.name} is used, which has {model}"
        return other, found, (remark,)
    told = f'spec.sloClassRef: there is no class "{of.key}" in ConfigMap {namespace}/{of.name}'
    return Problem(SLO_NOT_FOUND, "; ".join((told, *causes)))


def _causes(key: ClassKey, model: str, configuration: Configuration) -> list[str]:
    """Problems with the key that an object names, as far as they concern its model."""
    place = f"{key.namespace}/{key.config_map}"
    return [
        each.message
        for each in configuration.problems
        if not each.is_warning
        and each.model in ("", model)
        and each.config_map == place
        and each.key in ("", key.key)
    ]


def _has(service_class: ServiceClass, model: str) -> bool:
    return any(each.model == model for each in service_class.model_targets)
