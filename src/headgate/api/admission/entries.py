"""Under what an object can be found by others: the model names that it serves, the labels that it selects,
the workload that it scales.

An object that is malformed has fewer entries; asking for them never raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from headgate.api.admission import targets
from headgate.api.admission.place import Place

__all__ = [
    "ADAPTER",
    "INDEXED",
    "MODEL",
    "NAMED",
    "POOL_MODEL",
    "SCALES",
    "SELECTS",
    "Entry",
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


class Entry(NamedTuple):
    """One key of the index."""

    about: str
    value: tuple[str, ...]


def of(group: str, kind: str, obj: dict[str, Any]) -> Iterator[Entry]:
    """The entries of an object."""
    entries = _OF_KIND.get((group, kind))
    return iter(()) if entries is None else entries(Place(obj))


def selection(kind: str, namespace: str, labels: dict[str, str]) -> Iterator[Entry]:
    """One entry for each label that Pods are selected by."""
    return (Entry(SELECTS, (kind, namespace, key, value)) for key, value in labels.items())


def _model_route(route: Place) -> Iterator[Entry]:
    if name := route.at("spec.modelName").text:
        yield Entry(MODEL, (name,))
    for adapter in {each.text for each in route.at("spec.loraAdapters").items()}:
        if adapter:
            yield Entry(ADAPTER, (adapter,))


def _model(model: Place) -> Iterator[Entry]:
    if name := model.at("spec.name").text or model.at("metadata.name").text:
        yield Entry(MODEL, (name,))


def _inference_model(model: Place) -> Iterator[Entry]:
    name = model.at("spec.modelName").text
    if name:
        yield Entry(MODEL, (name,))
        pool = targets.pool(model)
        if pool is not None:
            yield Entry(POOL_MODEL, (*pool, name))


def _model_server(server: Place) -> Iterator[Entry]:
    return _selection("ModelServer", server, server.at("spec.workloadSelector.matchLabels"))


def _pool(pool: Place) -> Iterator[Entry]:
    return _selection("InferencePool", pool, pool.at("spec.selector"))


def _pool_v1(pool: Place) -> Iterator[Entry]:
    return _selection("InferencePool", pool, pool.at("spec.selector.matchLabels"))


def _selection(kind: str, obj: Place, labels: Place) -> Iterator[Entry]:
    if name := obj.at("metadata.name").text:
        yield Entry(NAMED, (kind, name))
    yield from selection(kind, _namespace(obj), labels.texts)


def _binding(binding: Place) -> Iterator[Entry]:
    for target in targets.of_binding(binding):
        yield Entry(SCALES, (_namespace(binding), *target.workload))


def _autoscaler(autoscaler: Place) -> Iterator[Entry]:
    if (workload := targets.of_autoscaler(autoscaler)) is not None:
        yield Entry(SCALES, (_namespace(autoscaler), *workload))


def _variant(variant: Place) -> Iterator[Entry]:
    if name := variant.at("metadata.name").text:
        yield Entry(SCALES, (_namespace(variant), "Deployment", name))


def _namespace(obj: Place) -> str:
    return obj.at("metadata.namespace").text or ""


_OF_KIND: dict[tuple[str, str], Callable[[Place], Iterator[Entry]]] = {
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
