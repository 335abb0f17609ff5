"""Shared by the Deployment and ReplicaSet controllers: kinds, templates, counts, and own writes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from headgate import api, cluster
from headgate.api import apps, marks
from headgate.kubeschema import timestamps

# Deployments and ReplicaSets with the Pod template as it was written.
#
# A template is copied from a Deployment to its ReplicaSets and from there to Pods, and fields unknown to our
# types must survive that. So it stays plain JSON here.
DESIRED = "deployment.kubernetes.io/desired-replicas"
"""On a ReplicaSet: the Deployment's total replicas when the set was last sized."""

Template = dict[str, Any]


class DeploymentSpec(apps.DeploymentSpec, frozen=True, kw_only=True):
    template: Template  # type: ignore[assignment]


class Deployment(apps.Deployment, frozen=True, kw_only=True):
    spec: DeploymentSpec


class ReplicaSetSpec(apps.ReplicaSetSpec, frozen=True, kw_only=True):
    template: Template = {}  # type: ignore[assignment]


class ReplicaSet(apps.ReplicaSet, frozen=True, kw_only=True):
    spec: ReplicaSetSpec


def controller_of(obj: cluster.KubeObject) -> api.OwnerReference | None:
    """The owner that manages an object."""
    return next((owner for owner in obj.metadata.owner_references if owner.controller), None)


def owner_reference(owner: cluster.KubeObject) -> dict[str, Any]:
    """The reference for an object created for `owner`."""
    return {
        "apiVersion": owner.resource.api_version,
        "kind": owner.resource.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned_by(uid: str, pods: Iterable[api.Pod]) -> list[api.Pod]:
    return [pod for pod in pods if (owner := controller_of(pod)) is not None and owner.uid == uid]


def is_active(pod: api.Pod) -> bool:
    """Whether a Pod counts as a replica: it has not ended and is not being deleted."""
    return pod.metadata.deletion_timestamp is None and not pod.ended


_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""As in Kubernetes: no vowels, so that no hash is a word."""

_LENGTH = 10


def content_hash(template: Template) -> str:
    """A hash of ten characters. Ignores the label that holds the hash, and null or empty fields.

    kubectl writes a template back with nulls and empty objects where there was nothing (`rollout undo`); that
    is not a new revision.
    """
    canonical = msgspec.json.encode(_essence(without_hash(template)), order="deterministic")
    number = int.from_bytes(hashlib.sha256(canonical).digest()[:8])
    letters = []
    for _ in range(_LENGTH):
        number, index = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return "".join(letters)


def with_hash(template: Template, value: str) -> Template:
    """The template with the label that identifies its revision."""
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), marks.POD_TEMPLATE_HASH: value}
    return {**template, "metadata": {**metadata, "labels": labels}}


def without_hash(template: Template) -> Template:
    metadata = template.get("metadata") or {}
    labels = {
        key: value for key, value in (metadata.get("labels") or {}).items() if key != marks.POD_TEMPLATE_HASH
    }
    return {**template, "metadata": {**metadata, "labels": labels}}


def _essence(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _essence(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not None and item not in ({}, [])}
    if isinstance(value, list):
        return [_essence(item) for item in value]
    return value


@dataclass(frozen=True)
class Counts:
    """Counts of a set's replicas."""

    replicas: int
    ready: int
    available: int
    next_available_s: float | None = None
    """Seconds until the next ready Pod becomes available by time alone."""


def count(pods: Iterable[api.Pod], min_ready_s: int, wall_s: float) -> Counts:
    """Count active Pods."""
    active = [pod for pod in pods if is_active(pod)]
    waits = [_wait_s(pod, min_ready_s, wall_s) for pod in active if pod.ready]
    pending = [wait for wait in waits if wait > 0]
    return Counts(len(active), len(waits), len(waits) - len(pending), min(pending, default=None))


def _wait_s(pod: api.Pod, min_ready_s: int, wall_s: float) -> float:
    """How long a ready Pod must stay ready to become available."""
    if min_ready_s <= 0:
        return 0.0
    since = next((each.last_transition_time for each in pod.status.conditions if each.type == "Ready"), None)
    return timestamps.parse(since) + min_ready_s - wall_s if since else float(min_ready_s)


# Own writes that the informer has not shown yet.
#
# An informer lags behind the server. A controller that only counts the informer's objects would create the
# same Pod twice; overlaying its own writes closes that gap without waiting.
K = TypeVar("K", bound=cluster.KubeObject)

FORGET_AFTER_S = 5.0
"""Longer than any informer should lag. An object that was deleted unseen counts as existing until then."""


class Overlay(Generic[K]):
    """Own writes, each until the informer shows it or a newer state."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._written: dict[str, tuple[K, float]] = {}
        self._removed: dict[str, float] = {}

    def wrote(self, obj: K) -> None:
        """Add an object as the server returned it after a write."""
        self._written[obj.metadata.uid] = (obj, self._clock() + FORGET_AFTER_S)

    def removed(self, uid: str) -> None:
        """Note that the object's deletion was requested."""
        self._written.pop(uid, None)
        self._removed[uid] = self._clock() + FORGET_AFTER_S

    def over(self, shown: Iterable[K]) -> list[K]:
        """The informer's objects, updated with own writes."""
        now = self._clock()
        objects = {obj.metadata.uid: obj for obj in shown}
        for uid, (obj, expires) in tuple(self._written.items()):
            known = objects.get(uid)
            if expires <= now or (known is not None and known.metadata.generation >= obj.metadata.generation):
                del self._written[uid]
            else:
                objects[uid] = obj
        for uid, expires in tuple(self._removed.items()):
            known = objects.pop(uid, None)
            if known is None or expires <= now:
                del self._removed[uid]
        return list(objects.values())

    @property
    def pending(self) -> int:
        """How many writes the informer has not confirmed."""
        return len(self._written) + len(self._removed)
