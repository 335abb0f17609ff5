"""Writes the replicas of workloads through their scale subresource."""

from __future__ import annotations

import enum
from typing import Final

from headgate import cluster
from headgate.controllers.autoscaling.workloads import Scalable, Workload

FIELD_MANAGER: Final = "headgate-autoscaler"
"""Owns spec.replicas of what it scales."""


class Scaled(enum.Enum):
    """What became of a write."""

    UNCHANGED = enum.auto()
    """There are as many already, so nothing was written."""
    WRITTEN = enum.auto()
    OUTDATED = enum.auto()
    """The workload had changed: the informer will provide it."""
    GONE = enum.auto()


class Scaler:
    """Remembers its last write to each workload until the informer shows it."""

    def __init__(self, client: cluster.Client) -> None:
        self._client = client
        self._unseen: dict[Workload, tuple[str, int]] = {}
        """The version that was changed, and the replicas that were written."""
        self.writes = 0

    def replicas(self, workload: Scalable) -> int:
        """The replicas that the workload has to have."""
        version, replicas = self._unseen.get(workload.place, ("", 0))
        if version == workload.metadata.resource_version:
            return replicas
        self._unseen.pop(workload.place, None)
        return workload.spec.replicas

    async def scale(self, workload: Scalable, replicas: int) -> Scaled:
        """Raises ApiError other than NotFound and Conflict."""
        if self.replicas(workload) == replicas:
            return Scaled.UNCHANGED
        metadata = workload.metadata
        # With its version: somebody else may have set the replicas meanwhile.
        patch = {
            "metadata": {"resourceVersion": metadata.resource_version},
            "spec": {"replicas": replicas},
        }
        try:
            await self._client.patch(
                type(workload),
                metadata.name,
                metadata.namespace,
                patch,
                subresource="scale",
                field_manager=FIELD_MANAGER,
            )
        except cluster.Conflict:
            return Scaled.OUTDATED
        except cluster.NotFound:
            return Scaled.GONE
        self.writes += 1
        self._unseen[workload.place] = (metadata.resource_version, replicas)
        return Scaled.WRITTEN
