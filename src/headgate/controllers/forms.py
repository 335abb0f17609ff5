"""Where each kind keeps its conditions: what a controller says has one form, and statuses have several.

ModelRoutes and ModelServers have that very form. The kinds of the Gateway API Inference Extension have a list
of conditions, and InferencePools of v1 one such list for each parent; Headgate's gateway is one of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headgate import api
from headgate.api import gie_v1, gie_v1alpha1, gie_v1alpha2
from headgate.controllers.relations import Observed

CONTROLLER = "headgate.dev/gateway"
PARENT = gie_v1.ParentReference(group="headgate.dev", kind="Gateway", name="headgate")
"""Headgate's own gateway, which is no object: it routes to pools without a Gateway and an HTTPRoute."""

Status = (
    api.ObservedStatus
    | gie_v1.InferencePoolStatus
    | gie_v1alpha1.InferencePoolStatus
    | gie_v1alpha1.InferenceModelStatus
    | gie_v1alpha2.InferenceObjectiveStatus
)

_NEVER = "1970-01-01T00:00:00Z"


def said(obj: Observed) -> api.ObservedStatus | None:
    """What the status of an object says already, of others too; None if it has none."""
    status = obj.status
    if status is None or isinstance(status, api.ObservedStatus):
        return status
    if isinstance(status, gie_v1.InferencePoolStatus):
        conditions = [each for parent in status.parents if _is_ours(parent) for each in parent.conditions]
    else:
        conditions = [each for each in status.conditions if not _is_default(each)]
    return api.ObservedStatus(
        conditions=conditions, observed_generation=conditions[0].observed_generation if conditions else None
    )


def formed(obj: Observed, status: api.ObservedStatus) -> Status:
    """The whole status that an object gets to say this."""
    conditions = status.conditions
    if isinstance(obj, gie_v1.InferencePool):
        ours = gie_v1.ParentStatus(parent_ref=PARENT, controller_name=CONTROLLER, conditions=conditions)
        parents = obj.status.parents if obj.status is not None else []
        return gie_v1.InferencePoolStatus(parents=[*_of_others(parents), ours])
    if isinstance(obj, gie_v1alpha1.InferencePool):
        return gie_v1alpha1.InferencePoolStatus(conditions=conditions)
    if isinstance(obj, api.InferenceModel):
        return gie_v1alpha1.InferenceModelStatus(conditions=conditions)
    if isinstance(obj, api.InferenceObjective):
        return gie_v1alpha2.InferenceObjectiveStatus(conditions=conditions)
    return status


def written(obj: Observed, status: api.ObservedStatus) -> dict[str, Any]:
    """The same as a plain object that an API server takes: messages must be there, even if empty."""
    plain: dict[str, Any] = msgspec.to_builtins(formed(obj, status))
    for part in (plain, *plain.get("parents", ())):
        for condition in part.get("conditions", ()):
            condition.setdefault("message", "")
    return plain


def _of_others(parents: Sequence[gie_v1.ParentStatus]) -> list[gie_v1.ParentStatus]:
    """Without the entry that some definitions give to pools that nobody has looked at."""
    return [each for each in parents if not _is_ours(each) and each.parent_ref.kind != "Status"]


def _is_ours(parent: gie_v1.ParentStatus) -> bool:
    return parent.controller_name == CONTROLLER and parent.parent_ref == PARENT


def _is_default(condition: api.Condition) -> bool:
    """Whether it is what a definition gives to objects that no controller has looked at."""
    return condition.reason == "Pending" and condition.last_transition_time == _NEVER
