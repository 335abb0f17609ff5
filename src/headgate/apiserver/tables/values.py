"""Values of objects that several rows look up."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

NONE = "<none>"


def condition(status: Object, type_: str) -> str:
    """The status of the condition of a type; empty if there is none."""
    found = (c.get("status", "") for c in status.get("conditions") or [] if c.get("type") == type_)
    return next(found, "")


def mapping(value: Any) -> Object:
    """What no schema says the shape of, if it has the right one."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> list[Object]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
