"""Which fields of a Pod's spec may change on an update: few, because it runs.

The node that takes a Pod writes its name into an empty spec.nodeName. In Kubernetes the scheduler does that
through the binding subresource, so this is the one change that is allowed here and not there.
"""

from __future__ import annotations

import copy
from typing import Any

from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings

__all__ = ["check"]

_RULE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_MAX_TOLD = 8


def check(spec: FieldCursor, old: FieldCursor, found: Findings) -> None:
    """Compare a Pod's spec with the old one."""
    if spec.value == old.value:
        return
    for field in ("containers", "initContainers"):
        if len(list(spec[field].items())) != len(list(old[field].items())):
            found.forbidden(spec[field], "pod updates may not add or remove containers")
            return
    for field in ("containers", "initContainers"):
        for container in spec[field].items():
            if container["image"].value == "" and not _was_without_image(old[field], container):
                found.required(container["image"])
    _check_deadline(spec["activeDeadlineSeconds"], old["activeDeadlineSeconds"], found)
    _check_tolerations(spec["tolerations"], old["tolerations"], found)
    changed = sorted(_differences(_frozen_part(spec, old), old.mapping, str(spec)))
    if changed:
        listed = changed[:_MAX_TOLD] + (["..."] if len(changed) > _MAX_TOLD else [])
        found.forbidden(spec, f"{_RULE}\nchanged: {', '.join(listed)}")


def _was_without_image(before: FieldCursor, container: FieldCursor) -> bool:
    name = container["name"].value
    return any(each["name"].value == name and not each["image"].value for each in before.items())


def _check_deadline(deadline: FieldCursor, old: FieldCursor, found: Findings) -> None:
    if old.integer is None:
        return
    if deadline.integer is None:
        found.invalid(deadline, "must not update from a positive integer to nil value")
    elif deadline.integer > old.integer:
        found.invalid(deadline, "must be less than or equal to previous value")


def _check_tolerations(tolerations: FieldCursor, old: FieldCursor, found: Findings) -> None:
    """Each old toleration must still exist; only its tolerationSeconds may differ."""
    kept = [_toleration(each.value) for each in tolerations.items()]
    if any(_toleration(each.value) not in kept for each in old.items()):
        told = "existing toleration can not be modified except its tolerationSeconds"
        found.forbidden(tolerations, told)


def _toleration(value: object) -> dict[str, Any]:
    return {k: v for k, v in value.items() if k != "tolerationSeconds"} if isinstance(value, dict) else {}


def _frozen_part(spec: FieldCursor, old: FieldCursor) -> dict[str, Any]:
    """The new spec with the changeable fields reset to their old values."""
    kept = copy.deepcopy(spec.mapping)
    for field in ("activeDeadlineSeconds", "tolerations"):
        _set_back(kept, old.mapping, field)
    grace = old["terminationGracePeriodSeconds"].integer
    if grace is not None and grace < 0 and spec["terminationGracePeriodSeconds"].integer == 1:
        _set_back(kept, old.mapping, "terminationGracePeriodSeconds")
    if not old["nodeName"].value:
        _set_back(kept, old.mapping, "nodeName")
    for field in ("containers", "initContainers"):
        before = [each.mapping for each in old[field].items()]
        for container, was in zip(FieldCursor(kept)[field].items(), before, strict=True):
            if isinstance(container.value, dict):
                _set_back(container.value, was, "image")
    return kept


def _set_back(new: dict[str, Any], old: dict[str, Any], field: str) -> None:
    new.pop(field, None)
    if field in old:
        new[field] = old[field]


def _differences(new: object, old: object, path: str) -> list[str]:
    """The paths of the fields in which two values differ."""
    if new == old:
        return []
    if isinstance(new, dict) and isinstance(old, dict):
        names = new.keys() | old.keys()
        return [one for name in names for one in _differences(new.get(name), old.get(name), f"{path}.{name}")]
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        pairs = enumerate(zip(new, old, strict=True))
        return [one for at, (mine, theirs) in pairs for one in _differences(mine, theirs, f"{path}[{at}]")]
    return [path]
