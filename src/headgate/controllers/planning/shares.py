"""Tells gateways the planned shares of variants whose Pods are in one pool, by an annotation of the pool.

A weight is for each Pod of a variant: what a replica is planned to take, relative to the mean of all
replicas. So it stays true while some of them are starting, and one write is enough for any number of Pods.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from headgate import api, cluster
from headgate.api import marks, weights
from headgate.api.weights import Weighed
from headgate.controllers.autoscaling.pools import KnownPool, Pools, ref_of
from headgate.controllers.autoscaling.workloads import Scalable
from headgate.controllers.planning.status import Found
from headgate.planning.load import Missing

log = logging.getLogger(__name__)

FIELD_MANAGER: Final = "headgate-planner"
_CHANGE: Final = 1.1
"""Weights are written again once one has changed by this factor relative to another."""
_DIGITS: Final = 3
_ALL: Final = 1.001
"""Shares of one model add up to no more than this."""


class Member(NamedTuple):
    """A variant in a pool."""

    workload: Scalable
    model: tuple[str, str]
    """With its namespace."""
    share: float | None
    """Of the requests for the model; None if nothing could be planned."""
    replicas: int = 0
    """That are planned for this share."""


class Shares:
    """Keeps the annotations of all pools as the last plan wants them."""

    def __init__(self, client: cluster.Client, pools: Pools) -> None:
        self._client = client
        self._pools = pools
        self._tried: dict[api.ObjectRef, tuple[str, str | None]] = {}
        """The version of each pool at the last write, and what was written: others may have their own."""

    async def write(self, found: Iterable[Found]) -> None:
        """Write what has clearly changed. A pool that cannot be written is logged, and tried again once it
        has changed."""
        members: defaultdict[api.ObjectRef, list[Member]] = defaultdict(list)
        for each in found:
            if each.workload is not None and (member := _member(each, each.workload)) is not None:
                for ref in self._pools.of(each.workload):
                    members[ref].append(member)
        for pool in list(self._pools.all()):
            own = members.get(ref_of(pool), [])
            if any(each.share is None for each in own):
                continue  # until everything is known, what was written stays
            await self._write(pool, weights_of(own))

    async def _write(self, pool: KnownPool, wanted: Sequence[Weighed]) -> None:
        ref, before = ref_of(pool), pool.metadata.annotations.get(marks.WEIGHTS)
        if before is None and not wanted:
            self._tried.pop(ref, None)
            return
        text = weights.written(wanted) if wanted else None
        if text is not None and not is_clear(before, wanted):
            return
        if self._tried.get(ref) == (pool.metadata.resource_version, text):
            return
        self._tried[ref] = pool.metadata.resource_version, text
        try:
            await self._apply(pool, {} if text is None else {marks.WEIGHTS: text})
        except cluster.NotFound:
            return
        except cluster.Conflict as error:
            log.info("the weights of %s are those of somebody else: %s", ref, error)
        except cluster.ApiError as error:
            log.warning("the planned shares of %s cannot be written: %s", ref, error)

    async def _apply(self, pool: KnownPool, annotations: Mapping[str, str]) -> None:
        metadata, resource = pool.metadata, pool.resource
        named: dict[str, Any] = {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid}
        patch = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {**named, "annotations": dict(annotations)},
        }
        await self._client.patch(
            type(pool),
            metadata.name,
            metadata.namespace,
            patch,
            cluster.PatchType.APPLY,
            field_manager=FIELD_MANAGER,
        )


def weights_of(members: Collection[Member]) -> list[Weighed]:
    """For each variant that is planned to run; none unless these are several of one model."""
    used = [each for each in members if each.share and each.replicas]
    total = sum(each.share or 0.0 for each in used)
    if len(used) < 2 or len({each.model for each in members}) > 1 or total > _ALL:
        return []
    mean = total / sum(each.replicas for each in used)
    ordered = sorted(used, key=lambda each: each.workload.place)
    return [
        Weighed(weight=_weight((each.share or 0.0) / each.replicas / mean), selector=each.workload.members)
        for each in ordered
    ]


def is_clear(before: str | None, wanted: Sequence[Weighed]) -> bool:
    """Whether the weights differ from those of an annotation by more than a little."""
    try:
        known = weights.of_pool({marks.WEIGHTS: before}) if before is not None else ()
    except marks.InvalidAnnotationError:
        return True
    if [each.selector for each in known] != [each.selector for each in wanted]:
        return True
    ratios = [new.weight / old.weight for new, old in zip(wanted, known, strict=True)]
    return max(ratios) > _CHANGE * min(ratios)


def _member(found: Found, workload: Scalable) -> Member | None:
    """None for an object that is wrong, so that nobody plans it."""
    demand, planned = found.demand, found.planned
    if demand is None:
        return None
    model = (demand.model, demand.namespace)
    if planned is not None and planned.allocation is not None:
        return Member(workload, model, planned.allocation.share, planned.allocation.replicas)
    is_unknown = planned is not None or found.failure or isinstance(found.load, Missing)
    return Member(workload, model, None) if is_unknown else None


def _weight(value: float) -> float:
    return min(max(float(f"{value:.{_DIGITS}g}"), weights.LEAST), weights.MOST)
