"""The Pods of a LeaderWorkerSet's groups, and the revisions that they are made from. Pure.

A revision has everything that makes a Pod: a change of any of it is a rollout. Pods have the names, labels
and variables that the project LWS gives them, with one difference: LWS_LEADER_ADDRESS is the address of the
leader, since a machine has no DNS for names of Pods.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from headgate import api
from headgate.api import leaderworkersets as lws
from headgate.node import workloads
from headgate.node.workloads import Template

Manifest = dict[str, Any]


class LeaderWorkerTemplate(lws.LeaderWorkerTemplate, frozen=True, kw_only=True):
    worker_template: Template  # type: ignore[assignment]
    leader_template: Template | None = None  # type: ignore[assignment]


class LeaderWorkerSetSpec(lws.LeaderWorkerSetSpec, frozen=True, kw_only=True):
    leader_worker_template: LeaderWorkerTemplate


class LeaderWorkerSet(lws.LeaderWorkerSet, frozen=True, kw_only=True):
    """A LeaderWorkerSet with the Pod templates as they were written."""

    spec: LeaderWorkerSetSpec


def revision_data(owner: LeaderWorkerSet) -> dict[str, Any]:
    """What a revision keeps of a set."""
    spec = owner.spec
    parts = {"leaderWorkerTemplate": spec.leader_worker_template, "networkConfig": spec.network_config}
    kept: dict[str, Any] = msgspec.to_builtins(parts)
    return kept


def revision_of(owner: LeaderWorkerSet) -> str:
    """Identifies the revision of a set as it is now."""
    return workloads.content_hash(revision_data(owner))


def template_of(revision: api.ControllerRevision) -> LeaderWorkerTemplate:
    """Raises msgspec.ValidationError."""
    return msgspec.convert(revision.data.get("leaderWorkerTemplate"), LeaderWorkerTemplate)


def leader_name(owner: LeaderWorkerSet, group: int) -> str:
    return f"{owner.metadata.name}-{group}"


def leader(owner: LeaderWorkerSet, revision: api.ControllerRevision, group: int) -> Manifest:
    """The leader of a group."""
    template = template_of(revision)
    name = leader_name(owner, group)
    labels = _labels(owner, revision, group, 0) | _subgroup(template, name, 0)
    made = _pod(template.leader_template or template.worker_template, owner, name, labels)
    made["metadata"]["annotations"][lws.SIZE] = str(template.size)
    made["metadata"]["ownerReferences"] = [workloads.owner_reference(owner)]
    address = {"valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}
    return _with_variables(made, address, template.size, 0)


def worker(
    owner: LeaderWorkerSet, revision: api.ControllerRevision, of: api.Pod, group: int, number: int
) -> Manifest:
    """A worker of the leader `of`, which has an address; it goes when that leader goes."""
    template = template_of(revision)
    name = f"{of.metadata.name}-{number}"
    labels = _labels(owner, revision, group, number) | _subgroup(template, of.metadata.name, number)
    made = _pod(template.worker_template, owner, name, labels)
    made["metadata"]["annotations"] |= {lws.SIZE: str(template.size), lws.LEADER_NAME: of.metadata.name}
    made["metadata"]["ownerReferences"] = [workloads.owner_reference(of)]
    return _with_variables(made, {"value": of.status.pod_ip}, template.size, number)


def _pod(template: Template, owner: LeaderWorkerSet, name: str, labels: dict[str, str]) -> Manifest:
    metadata = template.get("metadata") or {}
    return {
        **template,
        "apiVersion": api.Pod.resource.api_version,
        "kind": api.Pod.resource.kind,
        "metadata": {
            "name": name,
            "namespace": owner.metadata.namespace,
            "labels": {**(metadata.get("labels") or {}), **labels},
            "annotations": {**(metadata.get("annotations") or {})},
        },
    }


def _labels(
    owner: LeaderWorkerSet, revision: api.ControllerRevision, group: int, number: int
) -> dict[str, str]:
    key = f"{owner.metadata.namespace}/{leader_name(owner, group)}"
    return {
        lws.NAME: owner.metadata.name,
        lws.GROUP_INDEX: str(group),
        lws.WORKER_INDEX: str(number),
        lws.GROUP_KEY: _key(key),
        lws.REVISION: revision.metadata.labels.get(lws.REVISION, ""),
    }


def _subgroup(template: LeaderWorkerTemplate, leader: str, number: int) -> dict[str, str]:
    """If the size without the leader is divisible, the leader is an extra Pod of the first subgroup."""
    policy = template.sub_group_policy
    if policy is None or (number == 0 and policy.type == "LeaderExcluded"):
        return {}
    is_leader_extra = (template.size - 1) % policy.sub_group_size == 0
    subgroup = max(0, number - is_leader_extra) // policy.sub_group_size
    return {lws.SUBGROUP_INDEX: str(subgroup), lws.SUBGROUP_KEY: _key(f"{leader}/{subgroup}")}


def _key(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _with_variables(pod: Manifest, address: dict[str, Any], size: int, number: int) -> Manifest:
    """They come first, so that other variables, commands and arguments can refer to them."""
    variables = [
        {"name": lws.LEADER_ADDRESS, **address},
        {"name": lws.GROUP_SIZE, "value": str(size)},
        {"name": lws.INDEX_IN_GROUP, "value": str(number)},
    ]
    spec = dict(pod.get("spec") or {})
    for field in ("initContainers", "containers"):
        if field in spec:
            spec[field] = [_with_env(container, variables) for container in spec[field] or ()]
    return {**pod, "spec": spec}


def _with_env(container: Manifest, variables: Sequence[Manifest]) -> Manifest:
    names = {each["name"] for each in variables}
    others = [each for each in container.get("env") or () if each.get("name") not in names]
    return {**container, "env": [*variables, *others]}
