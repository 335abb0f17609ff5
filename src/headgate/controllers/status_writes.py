"""Writes the status of an object, as all controllers do."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

from headgate import cluster

COMPONENT: Final = "headgate-controller"
"""The field manager of statuses, and the source of Events."""


class Outcome(enum.Enum):
    """What became of a write."""

    WRITTEN = enum.auto()
    GONE = enum.auto()
    """The object was deleted, which the informer will report."""
    OUTDATED = enum.auto()
    """The object had changed in the meantime: the informer will provide the newer version."""


async def write_status(client: cluster.Client, obj: cluster.KubeObject, status: Mapping[str, Any]) -> Outcome:
    """Merge `status` into that of the object, unless the object has changed since it was read.

    The version also guards against our own last write, which the informer may not have shown yet. Raises
    ApiError other than NotFound and Conflict.
    """
    meta = obj.metadata
    patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
    try:
        await client.patch(
            type(obj), meta.name, meta.namespace, patch, subresource="status", field_manager=COMPONENT
        )
    except cluster.NotFound:
        return Outcome.GONE
    except cluster.Conflict:
        return Outcome.OUTDATED
    return Outcome.WRITTEN
