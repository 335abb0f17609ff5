"""The status of a LeaderWorkerSet, with the conditions of the project LWS. Pure.

`wall_s` is Unix time, since conditions say when they changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from headgate import api
from headgate.api import leaderworkersets as lws
from headgate.kubeschema import timestamps
from headgate.node.leaderworkerset_plan import Group, Wish
from headgate.node.leaderworkerset_pods import LeaderWorkerSet

AVAILABLE = "Available"
PROGRESSING = "Progressing"
UPDATING = "UpdateInProgress"
_SAID = {
    AVAILABLE: ("AllGroupsReady", "All groups are ready."),
    PROGRESSING: ("GroupsProgressing", "Groups are being created or are not ready yet."),
    UPDATING: ("GroupsUpdating", "Groups are being replaced by ones with the newest template."),
}


@dataclass(frozen=True)
class Rollout:
    """The observed groups of a set, by number."""

    wish: Wish
    groups: Mapping[int, Group]

    @property
    def _released(self) -> list[Group]:
        """Groups that a rollout is about: neither below the partition, nor surge groups."""
        first, end = self.wish.partition, self.wish.replicas
        return [group for number, group in self.groups.items() if first <= number < end]

    @property
    def is_updating(self) -> bool:
        return any(not group.updated for group in self._released)

    @property
    def is_available(self) -> bool:
        ready = sum(group.ready for number, group in self.groups.items() if number < self.wish.replicas)
        return ready == self.wish.replicas and all(group.updated for group in self._released)

    @property
    def is_complete(self) -> bool:
        """Whether no group needs a former revision."""
        return self.wish.partition == 0 and self.is_available


def status(owner: LeaderWorkerSet, seen: Rollout, wall_s: float) -> dict[str, Any]:
    """The complete status, including zeros, as a merge patch needs it."""
    groups = seen.groups.values()
    return {
        "replicas": len(groups),
        "readyReplicas": sum(group.ready for group in groups),
        "updatedReplicas": sum(group.updated for group in groups),
        "hpaPodSelector": f"{lws.NAME}={owner.metadata.name},{lws.WORKER_INDEX}=0",
        "conditions": _conditions(owner, seen, timestamps.seconds(wall_s)),
    }


def _conditions(owner: LeaderWorkerSet, seen: Rollout, now: str) -> list[dict[str, Any]]:
    """Those that hold, and those that have held before, which are now False."""
    old = {each.type: each for each in owner.status.conditions}
    true = {AVAILABLE} if seen.is_available else {PROGRESSING}
    was_updating = UPDATING in old and old[UPDATING].status == "True"
    if not seen.is_available and (seen.is_updating or was_updating):
        true.add(UPDATING)
    kinds = (*old, *(kind for kind in _SAID if kind in true and kind not in old))
    return [_condition(kind, kind in true, old.get(kind), now) for kind in kinds]


def _condition(kind: str, holds: bool, old: api.Condition | None, now: str) -> dict[str, Any]:
    reason, message = _SAID.get(kind, ("Unknown", ""))
    made = api.Condition(type=kind, status="True" if holds else "False", reason=reason, message=message)
    dated: dict[str, Any] = msgspec.to_builtins(made.after(old, now))
    return {"message": "", **dated}
