"""A VariantAutoscaling as planning needs it, and what keeps it from being planned."""

from __future__ import annotations

import itertools
from typing import Final

import msgspec

from headgate.api.llmd import VariantAutoscaling
from headgate.api.meta import ObjectKey
from headgate.planning.config_maps import COSTS, LIMITS, MAIN, UNNAMED, ClassKey, Configuration
from headgate.planning.config_values import decimal
from headgate.planning.replica import LEAST_MS
from headgate.planning.system import DecodeParms, Performance, PrefillParms, ServiceClass, Target

__all__ = [
    "ACCELERATOR_LABEL",
    "LONGEST_NAME",
    "ClassFound",
    "Variant",
    "VariantProblem",
    "class_of",
    "configuration_problems",
    "cost_problem",
]

ACCELERATOR_LABEL: Final = "inference.optimization/acceleratorName"
_MOST_ACCELERATORS: Final = 1024
"""Of one replica."""
_MOST_REQUESTS: Final = 8192
"""At once. Sizing takes longer in proportion, and each change of a load asks for another one."""
LONGEST_NAME: Final = 1024
"""Longer ones are not planned, and shortened in metrics, which all read."""
_MOST_TOLD: Final = 20
"""Problems of the configuration in one message."""
_SHORTEST_NAME: Final = 2
"""The definition of VariantAutoscalings rejects statuses with shorter names of accelerators."""


class VariantProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a variant is not planned, or not as its object says."""

    reason: str
    """For a condition: InvalidProfile, AcceleratorDiffers, VariantIDDiffers, SLONotFound, SLOReferenceBroken,
    CostMissing, InvalidConfiguration, ClassesDiffer, CapacityUnknown, OptimizationFailed, Infeasible."""
    message: str
    is_warning: bool = False
    """Whether the variant is planned nevertheless."""


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One way to serve a model, with the Deployment of the same name."""

    key: ObjectKey
    model: str
    variant_id: str
    accelerator: str
    """Of the spec. A label that differs is reported, and has no effect."""
    count: int
    """Accelerators of one replica."""
    class_ref: tuple[str, str]
    """ConfigMap and key."""
    performance: Performance | None
    """None: see the problems."""
    problems: tuple[VariantProblem, ...] = ()

    @classmethod
    def of(cls, scaled: VariantAutoscaling) -> Variant:
        """Read an object that keeps to its schema. What is wrong with it is in `problems`."""
        spec = scaled.spec
        wrong = [*_profile_problems(scaled)]
        return cls(
            key=scaled.metadata.key,
            model=spec.model_id,
            variant_id=spec.variant_id,
            accelerator=spec.accelerator,
            count=spec.accelerator_count,
            class_ref=(spec.slo_class_ref.name, spec.slo_class_ref.key),
            performance=None if wrong else _performance(scaled),
            problems=(*wrong, *_differences(scaled)),
        )

    @property
    def group(self) -> tuple[str, str]:
        """Model and namespace: the variants that share a load."""
        return self.model, self.key.namespace


def _performance(scaled: VariantAutoscaling) -> Performance:
    spec = scaled.spec
    decode = spec.variant_profile.perf_parms.decode_parms
    prefill = spec.variant_profile.perf_parms.prefill_parms
    return Performance(
        name=spec.model_id,
        acc=spec.accelerator,
        acc_count=spec.accelerator_count,
        max_batch_size=spec.variant_profile.max_batch_size,
        decode_parms=DecodeParms(alpha=float(decode["alpha"]), beta=float(decode["beta"])),
        prefill_parms=PrefillParms(gamma=float(prefill["gamma"]), delta=float(prefill["delta"])),
    )


def _profile_problems(scaled: VariantAutoscaling) -> list[VariantProblem]:
    spec = scaled.spec
    profile = spec.variant_profile
    told: list[str] = []
    for field, parameters, names in (
        ("decodeParms", profile.perf_parms.decode_parms, ("alpha", "beta")),
        ("prefillParms", profile.perf_parms.prefill_parms, ("gamma", "delta")),
    ):
        path = f"spec.variantProfile.perfParms.{field}"
        for name in names:
            if name not in parameters:
                told.append(f'{path} has no {name}; write it in milliseconds, as in {name}: "0.5"')
            elif decimal(parameters[name]) is None:
                shown = parameters[name][:80]
                told.append(f'{path}.{name}: "{shown}" is not a number of milliseconds; write it as in "0.5"')
    if profile.max_batch_size > _MOST_REQUESTS:
        told.append(
            f"spec.variantProfile.maxBatchSize: {profile.max_batch_size} is more than {_MOST_REQUESTS}"
        )
    if spec.accelerator_count > _MOST_ACCELERATORS:
        told.append(f"spec.acceleratorCount: {spec.accelerator_count} is more than {_MOST_ACCELERATORS}")
    decode = profile.perf_parms.decode_parms
    if not told and float(decode["alpha"]) + float(decode["beta"]) < LEAST_MS:
        told.append(
            f"spec.variantProfile.perfParms.decodeParms: alpha and beta add up to less than {LEAST_MS:g} ms, "
            "so that tokens would take no time; write those that were measured"
        )
    found = [VariantProblem(reason="InvalidProfile", message=each) for each in told]
    for name, text in (
        ("modelID", spec.model_id),
        ("variantID", spec.variant_id),
        ("accelerator", spec.accelerator),
    ):
        if len(text) > LONGEST_NAME:
            told_of = (
                f"spec.{name} has more than {LONGEST_NAME} characters; metrics could not be read any more"
            )
            found.append(VariantProblem(reason="InvalidConfiguration", message=told_of))
    if len(spec.accelerator) < _SHORTEST_NAME:
        found.append(
            VariantProblem(
                reason="InvalidConfiguration",
                message=f'spec.accelerator: "{spec.accelerator}" is too short for a status; give accelerators'
                f" names of at least {_SHORTEST_NAME} characters",
            )
        )
    return found


def _differences(scaled: VariantAutoscaling) -> list[VariantProblem]:
    """Fields that say the same thing in different ways."""
    spec, found = scaled.spec, []
    label = scaled.metadata.labels.get(ACCELERATOR_LABEL)
    if label is not None and label != spec.accelerator:
        told = (
            f'metadata.labels["{ACCELERATOR_LABEL}"] is "{label}", but spec.accelerator is '
            f'"{spec.accelerator}", which is used; set both to the accelerator of the Deployment'
        )
        found.append(VariantProblem(reason="AcceleratorDiffers", message=told, is_warning=True))
    expected = f"{spec.model_id}-{spec.accelerator}-{spec.accelerator_count}"
    if spec.variant_id != expected:
        told = (
            f'spec.variantID is "{spec.variant_id}", but modelID, accelerator and acceleratorCount make '
            f'"{expected}"; metrics go by variantID'
        )
        found.append(VariantProblem(reason="VariantIDDiffers", message=told, is_warning=True))
    return found


class ClassFound(msgspec.Struct, frozen=True, kw_only=True):
    """The service class of a variant."""

    key: ClassKey
    service_class: ServiceClass
    target: Target
    warning: VariantProblem | None = None


def class_of(variant: Variant, configuration: Configuration) -> ClassFound | VariantProblem:
    """The class that `sloClassRef` names, in the variant's namespace or that of the configuration.

    The reference ignores the field, so that many objects name a key that does not exist. They get the
    class that lists their model, as there: the most important one, if there are several.
    """
    config_map, name = variant.class_ref
    places = [ClassKey(place, config_map, name) for place in (variant.key.namespace, configuration.namespace)]
    for place in places:
        if place in configuration.classes:
            return _with_target(variant, place, configuration)
        broken = [each for each in configuration.problems_of(place) if not each.is_warning]
        if broken:
            return VariantProblem(reason="SLONotFound", message=broken[0].message)
    unread = [each.message for place in places for each in configuration.problems_of(place) if not each.key]
    told = f"spec.sloClassRef: {unread[0] if unread else f'ConfigMap {config_map} has no key {name}'}"
    other = configuration.common_classes.get(variant.model)
    if other is None:
        fix = "" if unread else f"; add the key, with the model {variant.model} under data"
        return VariantProblem(reason="SLONotFound", message=f"{told}{fix}")
    found = configuration.classes[other]
    told = f"{told}; class {found.name} of the key {other.key} is used, since it lists {variant.model}"
    warning = VariantProblem(reason="SLOReferenceBroken", message=told, is_warning=True)
    return msgspec.structs.replace(_targeted(found, other, variant.model), warning=warning)


def _with_target(
    variant: Variant, key: ClassKey, configuration: Configuration
) -> ClassFound | VariantProblem:
    service_class = configuration.classes[key]
    if any(target.model == variant.model for target in service_class.model_targets):
        return _targeted(service_class, key, variant.model)
    problems = [each for each in configuration.problems_of(key) if not each.is_warning]
    broken = [each.message for each in problems if each.model == variant.model or each.field == "data"]
    told = (
        f"ConfigMap {key.place}, key {key.key}: class {service_class.name} has no targets for the model "
        f"{variant.model}; add it under data"
    )
    return VariantProblem(reason="SLONotFound", message=broken[0] if broken else told)


def _targeted(service_class: ServiceClass, key: ClassKey, model: str) -> ClassFound:
    target = next(each for each in service_class.model_targets if each.model == model)
    return ClassFound(key=key, service_class=service_class, target=target)


def cost_problem(variant: Variant, configuration: Configuration) -> VariantProblem:
    """Why its accelerator has no cost."""
    where = ClassKey(configuration.namespace, COSTS, variant.accelerator)
    for each in configuration.problems_of(where):
        return VariantProblem(reason="CostMissing", message=each.message)
    told = f"ConfigMap {configuration.namespace}/{COSTS} has no key {variant.accelerator}"
    fix = f'add {variant.accelerator}: {{"device": "...", "cost": "40.00"}}, in cents per hour'
    return VariantProblem(reason="CostMissing", message=f"{told}; {fix}")


def configuration_problems(
    variant: Variant, key: ClassKey | None, configuration: Configuration
) -> list[VariantProblem]:
    """Problems of the configuration that concern a planned variant; `key` is that of its class."""
    namespace, named = configuration.namespace, configuration.problems_by_key
    accelerator = configuration.accelerators.get(variant.accelerator)
    names = {variant.accelerator, accelerator.kind if accelerator is not None else ""}
    of_limits = named.get(f"{namespace}/{LIMITS}", {})
    of_models = configuration.problems_of_zero
    found = itertools.chain(
        named.get(f"{namespace}/{COSTS}", {}).get(variant.accelerator, ()),
        named.get(key.place, {}).get(key.key, ()) if key is not None else (),
        itertools.chain.from_iterable(named.get(f"{namespace}/{MAIN}", {}).values()),
        of_models.get(variant.model, ()),
        of_models.get("", ()),
        of_models.get(UNNAMED, ()) if variant.model not in configuration.zero else (),
        itertools.chain.from_iterable(of_limits.get(each, ()) for each in sorted({"", *names})),
    )
    concerned = (each for each in found if each.model in ("", variant.model))
    return [
        VariantProblem(reason="InvalidConfiguration", message=each.message, is_warning=True)
        for each in itertools.islice(concerned, _MOST_TOLD)
    ]
