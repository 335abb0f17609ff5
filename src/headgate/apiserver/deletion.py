"""Deletion of an object: remove it immediately, or mark it and wait for finalizers or its node."""

from __future__ import annotations

import datetime
from typing import Any, Literal

import msgspec

from headgate.apiserver import builtin
from headgate.kubeschema import timestamps

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    """meta/v1 DeleteOptions, the fields with an effect."""

    grace_period_seconds: int | None = None
    propagation_policy: Literal["Orphan", "Background", "Foreground"] | None = None
    preconditions: Preconditions | None = None
    dry_run: list[Literal["All"]] | None = None
    orphan_dependents: bool | None = None


def mark(resource: str, obj: dict[str, Any], options: DeleteOptions, now: datetime.datetime) -> bool:
    """Mark an object for deletion in place. False if nothing blocks it and it can be removed immediately."""
    grace_s = builtin.grace_period_s(resource, obj, options.grace_period_seconds)
    meta = obj["metadata"]
    finalizers = _finalizers(meta.get("finalizers", []), options)
    if not finalizers and not grace_s and not holders(resource, obj):
        return False
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    left_s = meta.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" not in meta and "generation" in meta:
        meta["generation"] += 1
    if "deletionTimestamp" not in meta or (left_s is not None and grace_s < left_s):
        # A second delete may shorten the remaining time, never extend it.
        meta["deletionTimestamp"] = timestamps.seconds(now.timestamp() + grace_s)
        meta["deletionGracePeriodSeconds"] = grace_s
    if resource == builtin.NAMESPACE:
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}
    return True


def note(obj: dict[str, Any], now: datetime.datetime) -> None:
    """Set the time of deletion of a Pod that nothing holds, unless it has one."""
    meta = obj["metadata"]
    if "deletionTimestamp" not in meta:
        meta["generation"] = meta.get("generation", 0) + 1
        meta |= {"deletionTimestamp": timestamps.seconds(now.timestamp()), "deletionGracePeriodSeconds": 0}


def holders(resource: str, obj: dict[str, Any]) -> list[str]:
    """The finalizers that block the removal of a marked object."""
    held: list[str] = list(obj["metadata"].get("finalizers", []))
    if resource == builtin.NAMESPACE:
        held += obj.get("spec", {}).get("finalizers", [])
    return held


def is_over(resource: str, obj: dict[str, Any]) -> bool:
    """Whether a marked object has nothing left to wait for."""
    meta = obj["metadata"]
    if "deletionTimestamp" not in meta or holders(resource, obj):
        return False
    return not meta.get("deletionGracePeriodSeconds")


def _finalizers(present: list[str], options: DeleteOptions) -> list[str]:
    policy = options.propagation_policy
    if policy is None and options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    if policy is None:
        return present
    kept = [finalizer for finalizer in present if finalizer not in (ORPHAN, FOREGROUND)]
    return kept + {"Orphan": [ORPHAN], "Foreground": [FOREGROUND], "Background": []}[policy]
