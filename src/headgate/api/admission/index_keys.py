"""Index entries by which others find an object: the model names that it serves, the labels that it selects,
the workload that it scales.

A malformed object has fewer entries; computing them never raises.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from headgate.api import marks
from headgate.api.admission.field_cursor import FieldCursor

__all__ = [
    "ADAPTER",
    "GRANTS",
    "INDEXED",
    "MODEL",
    "NAMED",
    "POOL_MODEL",
    "SCALES",
    "IndexKey",
    "ScalingTarget",
    "group_of",
    "group_of_kind",
    "of",
    "pool_of",
    "selection",
    "target_of_autoscaler",
    "targets_of_binding",
]

MODEL = "model"
"""The object takes requests with this `model`."""
ADAPTER = "adapter"
"""The object takes requests for this LoRA adapter, if no object has the name as its model."""
POOL_MODEL = "pool model"
"""Pool and model name of an InferenceModel, which must be unique."""
NAMED = "named"
"""Kind and name in any namespace: for hints at an object that is elsewhere."""
SELECTS = "selects"
"""A pool of this kind selects Pods by this label, among others."""
SCALES = "scales"
"""The object decides the number of replicas of the workload."""
GRANTS = "grants"
"""A ReferenceGrant allows references: its namespace; group, kind and namespace of those that refer; group,
kind and name of the target, "" for every name."""


MANY_ENDS = 16
"""Limit of each list of a ReferenceGrant, as in its schema."""


class IndexKey(NamedTuple):
    """One key of the index."""

    about: str
    value: tuple[str, ...]


def of(group: str, kind: str, obj: dict[str, Any]) -> Iterator[IndexKey]:
    """The entries of an object."""
    entries = _OF_KIND.get((group, kind))
    return iter(()) if entries is None else entries(FieldCursor(obj))


def selection(kind: str, namespace: str, labels: dict[str, str]) -> Iterator[IndexKey]:
    """One entry for each label that Pods are selected by."""
    return (IndexKey(SELECTS, (kind, namespace, key, value)) for key, value in labels.items())


def _model_route(route: FieldCursor) -> Iterator[IndexKey]:
    if name := route.at("spec.modelName").text:
        yield IndexKey(MODEL, (name,))
    for adapter in {each.text for each in route.at("spec.loraAdapters").items()}:
        if adapter:
            yield IndexKey(ADAPTER, (adapter,))


def _model(model: FieldCursor) -> Iterator[IndexKey]:
    if name := model.at("spec.name").text or model.at("metadata.name").text:
        yield IndexKey(MODEL, (name,))


def _inference_model(model: FieldCursor) -> Iterator[IndexKey]:
    name = model.at("spec.modelName").text
    if name:
        yield IndexKey(MODEL, (name,))
        pool = pool_of(model)
        if pool is not None:
            yield IndexKey(POOL_MODEL, (*pool, name))


def _model_server(server: FieldCursor) -> Iterator[IndexKey]:
    return _selection("ModelServer", server, server.at("spec.workloadSelector.matchLabels"))


def _pool(pool: FieldCursor) -> Iterator[IndexKey]:
    return _selection("InferencePool", pool, pool.at("spec.selector"))


def _pool_v1(pool: FieldCursor) -> Iterator[IndexKey]:
    return _selection("InferencePool", pool, pool.at("spec.selector.matchLabels"))


def _selection(kind: str, obj: FieldCursor, labels: FieldCursor) -> Iterator[IndexKey]:
    if name := obj.at("metadata.name").text:
        yield IndexKey(NAMED, (kind, name))
    yield from selection(kind, _namespace(obj), labels.texts)


def _binding(binding: FieldCursor) -> Iterator[IndexKey]:
    for target in targets_of_binding(binding):
        yield IndexKey(SCALES, (target.namespace, *target.workload))


def _autoscaler(autoscaler: FieldCursor) -> Iterator[IndexKey]:
    if (workload := target_of_autoscaler(autoscaler)) is not None:
        yield IndexKey(SCALES, (_namespace(autoscaler), *workload))


def _variant(variant: FieldCursor) -> Iterator[IndexKey]:
    if (name := variant.at("metadata.name").text) and is_direct(variant):
        yield IndexKey(SCALES, (_namespace(variant), "Deployment", name))


def is_direct(variant: FieldCursor) -> bool:
    """Whether the controller writes the replicas of a VariantAutoscaling; others scale by its gauges."""
    return variant.at("metadata.annotations").key(marks.ACTUATE).text == marks.DIRECT


def _grant(grant: FieldCursor) -> Iterator[IndexKey]:
    targets = list(itertools.islice(grant.at("spec.to").items(), MANY_ENDS))
    for source in itertools.islice(grant.at("spec.from").items(), MANY_ENDS):
        of = [source[name].text or "" for name in ("group", "kind", "namespace")]
        for target in targets:
            to = [target[name].text or "" for name in ("group", "kind", "name")]
            yield IndexKey(GRANTS, (_namespace(grant), *of, *to))


def _namespace(obj: FieldCursor) -> str:
    return obj.at("metadata.namespace").text or ""


_OF_KIND: dict[tuple[str, str], Callable[[FieldCursor], Iterator[IndexKey]]] = {
    ("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    ("gateway.networking.k8s.io", "ReferenceGrant"): _grant,
    ("networking.volcano.sh", "ModelRoute"): _model_route,
    ("networking.volcano.sh", "ModelServer"): _model_server,
    ("registry.volcano.sh", "Model"): _model,
    ("registry.volcano.sh", "AutoscalingPolicyBinding"): _binding,
    ("inference.networking.x-k8s.io", "InferenceModel"): _inference_model,
    ("inference.networking.x-k8s.io", "InferencePool"): _pool,
    ("inference.networking.k8s.io", "InferencePool"): _pool_v1,
    ("llmd.ai", "VariantAutoscaling"): _variant,
}

INDEXED = frozenset(_OF_KIND)
"""Groups and kinds that have entries."""

# References of an object: the pool of an InferenceModel, the workloads that a binding scales.
_GROUPS = {
    "Deployment": "apps",
    "StatefulSet": "apps",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io",
    "ModelInfer": "workload.volcano.sh",
    "ModelServing": "workload.serving.volcano.sh",
}
"""Groups of scalable kinds, for references without a group."""


class ScalingTarget(NamedTuple):
    """One target of a binding, with its bounds."""

    place: FieldCursor
    """The scalingConfiguration or the item of params."""
    namespace: str
    """That of the workload."""
    workload: tuple[str, str]
    """Kind and name."""

    @property
    def reference(self) -> FieldCursor:
        return self.place.at("target.targetRef")


def targets_of_binding(binding: FieldCursor) -> Iterator[ScalingTarget]:
    """The workloads whose replicas an AutoscalingPolicyBinding decides, in the order of the manifest."""
    spec = binding["spec"]
    for place in (spec["scalingConfiguration"], *spec["optimizerConfiguration"]["params"].items()):
        reference = place.at("target.targetRef")
        if name := reference["name"].text:
            namespace = reference["namespace"].text or _namespace(binding)
            yield ScalingTarget(place, namespace, (reference["kind"].text or "", name))


def target_of_autoscaler(autoscaler: FieldCursor) -> tuple[str, str] | None:
    """Kind and name of the workload that a HorizontalPodAutoscaler scales."""
    reference = autoscaler.at("spec.scaleTargetRef")
    kind, name = reference["kind"].text, reference["name"].text
    return (kind, name) if kind and name else None


def group_of(reference: FieldCursor) -> str | None:
    """The group of an ObjectReference; None if it has none and the kind is not known."""
    return group_of_kind(reference["apiVersion"].text or "", reference["kind"].text or "")


def group_of_kind(api_version: str, kind: str) -> str | None:
    """The same of its fields."""
    return api_version.rpartition("/")[0] if api_version else _GROUPS.get(kind)


def pool_of(obj: FieldCursor) -> tuple[str, str, str] | None:
    """Namespace, group and name of the pool that an InferenceModel or InferenceObjective refers to.

    The group is that of the manifest, with defaults filled in.
    """
    reference = obj.at("spec.poolRef")
    name = reference["name"].text
    if name is None:
        return None
    return obj.at("metadata.namespace").text or "", reference["group"].text or "", name
