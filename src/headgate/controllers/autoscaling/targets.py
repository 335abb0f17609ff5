"""What a binding scales: its targets as it names them, and the workloads that these are. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from headgate import api
from headgate.api import kthena_registry
from headgate.api.admission.index_keys import group_of_kind
from headgate.api.kthena_registry import ScalingConfiguration
from headgate.controllers.autoscaling.workloads import BY_KIND, Scalable, Workload
from headgate.controllers.model import names

MODEL: Final = (kthena_registry.GROUP, "Model")
TARGET_NOT_FOUND, KIND_NOT_SUPPORTED = "TargetNotFound", "KindNotSupported"
NO_TARGET, DUPLICATE, AMBIGUOUS = "NoTarget", "DuplicateTarget", "TargetAmbiguous"


class Named(NamedTuple):
    """A target of a binding."""

    field: str
    """Where the binding names it."""
    configuration: ScalingConfiguration
    group: str
    workload: Workload

    @property
    def is_model(self) -> bool:
        return (self.group, self.workload.kind) == MODEL


class Target(NamedTuple):
    """A target, and the workload whose replicas are written."""

    named: Named
    scalable: Scalable

    @property
    def workload(self) -> Workload:
        return self.scalable.place

    @property
    def configuration(self) -> ScalingConfiguration:
        return self.named.configuration


class Refusal(NamedTuple):
    """Why the targets cannot be scaled."""

    reason: str
    message: str


def named(binding: api.AutoscalingPolicyBinding) -> Iterator[Named]:
    """The targets in the order of the spec; those without a name are left out."""
    spec = binding.spec
    places = [("spec.scalingConfiguration", spec.scaling_configuration)]
    if spec.optimizer_configuration is not None:
        params = spec.optimizer_configuration.params
        places += [(f"spec.optimizerConfiguration.params[{i}]", each) for i, each in enumerate(params)]
    for place, configuration in places:
        if configuration is None or configuration.target is None:
            continue
        of = configuration.target.target_ref
        if of.name:
            workload = Workload(of.namespace or binding.metadata.namespace, of.kind, of.name)
            group = group_of_kind(of.api_version, of.kind) or ""
            yield Named(f"{place}.target.targetRef", configuration, group, workload)


def resolve(
    targets: Sequence[Named],
    workload: Callable[[Workload], Scalable | None],
    of_model: Callable[[Workload], Sequence[Scalable]],
) -> Sequence[Target] | Refusal:
    """The workloads of the targets. `workload` and `of_model` find what exists: one, and those of a Model."""
    if not targets:
        return Refusal(NO_TARGET, "spec: no target has a targetRef with a name; name the workload to scale")
    found: list[Target] = []
    for each in targets:
        scalable = _of_model(each, of_model(each.workload)) if each.is_model else _one(each, workload)
        if isinstance(scalable, Refusal):
            return scalable
        if any(other.workload == scalable.place for other in found):
            told = f"{each.field}: {scalable.place} is a target of the same binding already; remove one"
            return Refusal(DUPLICATE, told)
        found.append(Target(each, scalable))
    return found


def _one(target: Named, workload: Callable[[Workload], Scalable | None]) -> Scalable | Refusal:
    if (target.group, target.workload.kind) not in BY_KIND:
        kinds = ", ".join(kind for _, kind in BY_KIND)
        what = f'{target.workload.kind} of group "{target.group}"'
        told = f"{target.field}: kind {what} is not scaled; the kinds are {kinds} and Model"
        return Refusal(KIND_NOT_SUPPORTED, told)
    found = workload(target.workload)
    if found is None:
        return Refusal(TARGET_NOT_FOUND, f"{target.field}: there is no {target.workload}")
    return found


def _of_model(target: Named, workloads: Sequence[Scalable]) -> Scalable | Refusal:
    """The worker whose replicas those of the others follow."""
    if not workloads:
        told = f"{target.field}: there is no {target.workload}, or it has no workload yet"
        return Refusal(TARGET_NOT_FOUND, told)
    backends = {each.metadata.labels.get(names.BACKEND_NAME, "") for each in workloads}
    if len(backends) > 1:
        told = (
            f"{target.field}: {target.workload} has {len(backends)} backends; set spec.autoscalingPolicy of "
            "the Model, or name the workload of each backend in optimizerConfiguration"
        )
        return Refusal(AMBIGUOUS, told)
    decoding = (each for each in workloads if each.pod_labels.get(names.ROLE) == "decode")
    return next(decoding, min(workloads, key=lambda each: each.metadata.name))


def pod_labels(target: Target) -> Mapping[str, str]:
    """What Pods that are measured are selected by."""
    configured = target.configuration.target
    more = configured.additional_match_labels if configured is not None else {}
    entry = (
        {names.ENTRY: "true"} if target.named.is_model and names.ENTRY in target.scalable.pod_labels else {}
    )
    return {**(target.scalable.selector.match_labels or target.scalable.pod_labels), **entry, **more}
