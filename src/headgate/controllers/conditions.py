"""Converts findings about an object to conditions in its status, and detects changes.

`lastTransitionTime` changes only with the status, conditions of other controllers are kept, and equal
findings produce an equal status, so that nothing is written unless something changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from headgate import api
from headgate.api import gie_v1, gie_v1alpha1, gie_v1alpha2
from headgate.controllers.relations import Observed

MAX_MESSAGE = 32768
"""meta/v1 Condition's limit for a message."""


class Finding(NamedTuple):
    """One condition without its history."""

    type: str
    holds: bool
    reason: str
    message: str


def observed(
    previous: api.ObservedStatus | None, findings: Sequence[Finding], generation: int, now: str
) -> api.ObservedStatus:
    """The status that follows `previous`; `now` is RFC 3339."""
    before = {condition.type: condition for condition in _conditions(previous)}
    ours = [_condition(finding, before.pop(finding.type, None), generation, now) for finding in findings]
    return api.ObservedStatus(conditions=[*ours, *before.values()], observed_generation=generation)


def news(previous: api.ObservedStatus | None, current: api.ObservedStatus) -> list[api.Condition]:
    """Conditions whose status or reason changed. A new condition that is true is not a change."""
    before = {condition.type: condition for condition in _conditions(previous)}
    return [each for each in current.conditions if _is_news(before.get(each.type), each)]


def is_reworded(previous: api.ObservedStatus | None, current: api.ObservedStatus) -> bool:
    """Whether only messages differ: the statuses, reasons and observed generation are the same."""
    return previous is not None and _without_words(previous) == _without_words(current)


def enumerated(items: Iterable[str], separator: str = ", ", limit: int = MAX_MESSAGE - 1024) -> str:
    """As many items as fit in `limit` characters, and the number of omitted ones."""
    items = list(items)
    length = 0
    for shown, item in enumerate(items):
        length += len(item) + len(separator)
        if length > limit and shown:
            return f"{separator.join(items[:shown])} and {len(items) - shown} more"
    return separator.join(items)


def _without_words(status: api.ObservedStatus) -> tuple[object, ...]:
    wordless = [msgspec.structs.replace(condition, message="") for condition in status.conditions]
    return status.observed_generation, wordless


def _conditions(status: api.ObservedStatus | None) -> list[api.Condition]:
    return status.conditions if status else []


def _condition(finding: Finding, old: api.Condition | None, generation: int, now: str) -> api.Condition:
    return api.Condition(
        type=finding.type,
        status="True" if finding.holds else "False",
        reason=finding.reason,
        message=finding.message[:MAX_MESSAGE],
        observed_generation=generation,
    ).after(old, now)


def _is_news(old: api.Condition | None, new: api.Condition) -> bool:
    if old is None:
        return new.status != "True"
    return (old.status, old.reason) != (new.status, new.reason)


# Where each kind keeps its conditions: controllers use one format, statuses several.
#
# ModelRoutes and ModelServers use this format. The kinds of the Gateway API Inference Extension have a list
# of conditions, and InferencePools of v1 have one list for each parent; Headgate's gateway is one of them.
CONTROLLER = "headgate.dev/gateway"
PARENT = gie_v1.ParentReference(group="headgate.dev", kind="Gateway", name="headgate")
"""Headgate's gateway, which is not an object: it routes to pools without a Gateway and an HTTPRoute."""

Status = (
    api.ObservedStatus
    | gie_v1.InferencePoolStatus
    | gie_v1alpha1.InferencePoolStatus
    | gie_v1alpha1.InferenceModelStatus
    | gie_v1alpha2.InferenceObjectiveStatus
    | gie_v1alpha2.InferenceModelRewriteStatus
)

_NEVER = "1970-01-01T00:00:00Z"


def said(obj: Observed) -> api.ObservedStatus | None:
    """The conditions already in an object's status, including those of others; None if it has none."""
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
    """The complete status of an object with these conditions."""
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
    if isinstance(obj, api.InferenceModelRewrite):
        return gie_v1alpha2.InferenceModelRewriteStatus(conditions=conditions)
    return status


def written(obj: Observed, status: api.ObservedStatus) -> dict[str, Any]:
    """The same as a plain object for an API server, which requires messages, even if empty."""
    return plain(formed(obj, status))


def plain(status: Status) -> dict[str, Any]:
    """A status for an API server."""
    made: dict[str, Any] = msgspec.to_builtins(status)
    for part in (made, *made.get("parents", ())):
        for condition in part.get("conditions", ()):
            condition.setdefault("message", "")
    return made


def without_ours(pool: gie_v1.InferencePool) -> list[gie_v1.ParentStatus]:
    """The parents of a pool, without Headgate's gateway that needs no Gateway."""
    return [each for each in (pool.status.parents if pool.status is not None else ()) if not _is_ours(each)]


def _of_others(parents: Sequence[gie_v1.ParentStatus]) -> list[gie_v1.ParentStatus]:
    """Without the default entry that some definitions add to pools no controller has processed."""
    return [each for each in parents if not _is_ours(each) and each.parent_ref.kind != "Status"]


def _is_ours(parent: gie_v1.ParentStatus) -> bool:
    return parent.controller_name == CONTROLLER and parent.parent_ref == PARENT


def _is_default(condition: api.Condition) -> bool:
    """Whether it is the default that a definition adds before any controller has processed the object."""
    return condition.reason == "Pending" and condition.last_transition_time == _NEVER
