"""The weights of a pool's endpoints: of their Pods, or by their labels from the pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from headgate import api
from headgate.api import weights
from headgate.api.marks import InvalidAnnotationError
from headgate.api.weights import Weighed
from headgate.routing import endpoints
from headgate.routing.problems import INVALID_ANNOTATION, Report
from headgate.routing.snapshot import Endpoint


def of_endpoints(
    notes: Mapping[str, str], pods: Mapping[Endpoint, api.Pod], field: str, report: Report
) -> Mapping[Endpoint, float]:
    """The weight of each endpoint; empty if nobody has given any. `notes` are annotations of their pool,
    `field` selects the Pods. Endpoints of one Pod share its weight."""
    planned = _planned(notes, report)
    if not planned and not any(api.marks.WEIGHT in pod.metadata.annotations for pod in pods.values()):
        return {}
    sharing = Counter(pod.metadata.key for pod in pods.values())
    of_pods = {pod.metadata.key: _weight(pod, planned, field, report) for pod in pods.values()}
    return {endpoint: of_pods[pod.metadata.key] / sharing[pod.metadata.key] for endpoint, pod in pods.items()}


def _planned(notes: Mapping[str, str], report: Report) -> Sequence[Weighed]:
    try:
        return weights.of_pool(notes)
    except InvalidAnnotationError as error:
        told = f"{error}; until then, it has no effect"
        report(f"metadata.annotations[{error.annotation}]", INVALID_ANNOTATION, told)
        return ()


def _weight(pod: api.Pod, planned: Sequence[Weighed], field: str, report: Report) -> float:
    try:
        own = weights.of_pod(pod.metadata.annotations)
    except InvalidAnnotationError as error:
        report(field, INVALID_ANNOTATION, endpoints.of_pod(pod, error.annotation, str(error)))
        own = None
    if own is not None:
        return own
    labels = pod.metadata.labels
    return next((each.weight for each in planned if each.selector.matches(labels)), weights.USUAL)
