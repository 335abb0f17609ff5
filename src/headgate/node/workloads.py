"""Deployments and ReplicaSets as this room reads them: with the Pod template as it was written.

A template is copied from a Deployment to its ReplicaSets and from there to Pods, and fields that our types
don't name must survive that. So it stays plain JSON here.
"""

from collections.abc import Iterable
from typing import Any

from headgate import api
from headgate.api import apps

DESIRED = "deployment.kubernetes.io/desired-replicas"
"""On a ReplicaSet: how many replicas its Deployment wanted in all when the set was last sized."""

Template = dict[str, Any]


class DeploymentSpec(apps.DeploymentSpec, frozen=True, kw_only=True):
    template: Template  # type: ignore[assignment]


class Deployment(apps.Deployment, frozen=True, kw_only=True):
    spec: DeploymentSpec


class ReplicaSetSpec(apps.ReplicaSetSpec, frozen=True, kw_only=True):
    template: Template = {}  # type: ignore[assignment]


class ReplicaSet(apps.ReplicaSet, frozen=True, kw_only=True):
    spec: ReplicaSetSpec


def controller_of(obj: api.Pod | ReplicaSet) -> api.OwnerReference | None:
    """The owner that manages an object."""
    return next((owner for owner in obj.metadata.owner_references if owner.controller), None)


def owner_reference(owner: Deployment | ReplicaSet) -> dict[str, Any]:
    """The reference that an object made for `owner` carries."""
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
    """Whether a Pod counts as a replica: it has not ended and is not asked to."""
    return pod.metadata.deletion_timestamp is None and not pod.ended
