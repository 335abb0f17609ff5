"""Under what an object can be found by others: the model names that it serves, the labels that it selects,
the workload that it scales.

An object that is malformed has fewer entries; asking for them never raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from headgate.api.admission import targets
from headgate.api.admission.field_cursor import FieldCursor

__all__ = [
    "ADAPTER",
    "INDEXED",
    "MODEL",
    "NAMED",
    "POOL_MODEL",
    "SCALES",
    "SELECTS",
    "IndexKey",
    "of",
    "selection",
]

MODEL = "model"
"""Requests with this `model` are for the object."""
ADAPTER = "adapter"
"""The object takes requests for this LoRA adapter, if no object has the name as its model."""
POOL_MODEL = "pool model"
"""Pool and model name of an InferenceModel, which must be unique."""
NAMED = "named"
"""Kind and name, in whatever namespace: for hints at an object that is elsewhere."""
SELECTS = "selects"
"""A pool of this kind selects Pods by this label, among others."""
SCALES = "scales"
"""The object decides how many replicas the workload has."""


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
        pool = targets.pool(model)
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
    for target in targets.of_binding(binding):
        yield IndexKey(SCALES, (_namespace(binding), *target.workload))


def _autoscaler(autoscaler: FieldCursor) -> Iterator[IndexKey]:
    if (workload := targets.of_autoscaler(autoscaler)) is not None:
        yield IndexKey(SCALES, (_namespace(autoscaler), *workload))


def _variant(variant: FieldCursor) -> Iterator[IndexKey]:
    if name := variant.at("metadata.name").text:
        yield IndexKey(SCALES, (_namespace(variant), "Deployment", name))


def _namespace(obj: FieldCursor) -> str:
    return obj.at("metadata.namespace").text or ""


_OF_KIND: dict[tuple[str, str], Callable[[FieldCursor], Iterator[IndexKey]]] = {
    ("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
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
