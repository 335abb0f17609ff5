"""Makes a workload the owner of its VariantAutoscaling, which is deleted with it."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate import api, cluster
from headgate.api.meta import OwnerReference
from headgate.controllers.autoscaling.workloads import Scalable
from headgate.controllers.status_writes import COMPONENT


def other_owner(obj: api.VariantAutoscaling, workload: Scalable) -> str:
    """Who else controls the object, in words; or empty."""
    for each in obj.metadata.owner_references:
        if each.controller and each.uid != workload.metadata.uid:
            return f"{each.kind} {each.name}"
    return ""


def is_owned(obj: api.VariantAutoscaling, workload: Scalable) -> bool:
    return any(each.uid == workload.metadata.uid for each in obj.metadata.owner_references)


async def own(client: cluster.Client, obj: api.VariantAutoscaling, workload: Scalable) -> None:
    """Write the reference, unless the object has changed since it was read. Raises ApiError other than
    NotFound and Conflict."""
    resource = workload.resource
    reference = OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=workload.metadata.name,
        uid=workload.metadata.uid,
        controller=True,
        block_owner_deletion=False,
    )
    references: list[Any] = msgspec.to_builtins([*obj.metadata.owner_references, reference])
    meta = obj.metadata
    patch = {"metadata": {"resourceVersion": meta.resource_version, "ownerReferences": references}}
    try:
        await client.patch(type(obj), meta.name, meta.namespace, patch, field_manager=COMPONENT)
    except (cluster.NotFound, cluster.Conflict):
        return  # the informer will provide the current state
