"""Keeps what planning knows as annotations of VariantAutoscalings: the load that was planned for, which
`headgate plan explain` reads."""

from __future__ import annotations

import logging

from headgate import api, cluster
from headgate.api import marks
from headgate.controllers.planning.status import Found
from headgate.controllers.status_writes import COMPONENT
from headgate.planning import planned_load
from headgate.planning.load import Load
from headgate.planning.planned_load import PlannedLoad

log = logging.getLogger(__name__)


async def note(client: cluster.Client, obj: api.VariantAutoscaling, found: Found) -> None:
    """Write the annotation if the load has clearly changed, or the plan has. Raises ApiError other than
    NotFound, Conflict, Forbidden and Invalid."""
    if not isinstance(found.load, Load) or found.planned is None:
        return
    due = PlannedLoad.of(found.load, idle=found.may_be_zero)
    before = planned_load.read(obj.metadata.annotations.get(marks.PLANNED_LOAD))
    if before == due or not (planned_load.is_clear(before, due) or _is_other_plan(obj, found)):
        return
    await annotate(client, obj, marks.PLANNED_LOAD, due.written(), "planned load")


async def annotate(
    client: cluster.Client, obj: api.VariantAutoscaling, name: str, value: str | None, told: str
) -> None:
    """Write an annotation; None removes it. `told` names what it is, for the log. Raises ApiError other than
    NotFound, Conflict, Forbidden and Invalid."""
    metadata = obj.metadata
    patch = {"metadata": {"annotations": {name: value}}}
    try:
        await client.patch(type(obj), metadata.name, metadata.namespace, patch, field_manager=COMPONENT)
    except (cluster.NotFound, cluster.Conflict):
        return
    except (cluster.Forbidden, cluster.Invalid) as error:
        log.warning("the %s of %s cannot be kept: %s", told, metadata.key, error)


def _is_other_plan(obj: api.VariantAutoscaling, found: Found) -> bool:
    """Whether other replicas are planned than the status has."""
    before = obj.status.desired_optimized_alloc if obj.status is not None else None
    planned = found.planned
    return planned is not None and (before is None or before.num_replicas != planned.replicas)
