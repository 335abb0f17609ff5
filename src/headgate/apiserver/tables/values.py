"""Values shared by several rows, and ages as kubectl prints them."""

from __future__ import annotations

import datetime
from typing import Any

from headgate.kubeschema import timestamps

Object = dict[str, Any]

NONE = "<none>"


def condition(status: Object, type_: str) -> str:
    """The status of the condition of a type; empty if there is none."""
    found = (c.get("status", "") for c in status.get("conditions") or [] if c.get("type") == type_)
    return next(found, "")


def mapping(value: Any) -> Object:
    """A value that no schema checks, or {} if it is not an object."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> list[Object]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


UNKNOWN = "<unknown>"


def since(timestamp: Any, now: datetime.datetime) -> str:
    """The age of an RFC 3339 time, as kubectl prints it."""
    try:
        return human_duration(int(now.timestamp() - timestamps.parse(str(timestamp))))
    except ValueError:
        return UNKNOWN


def human_duration(seconds: int) -> str:
    """A duration as kubectl shows it: 90s, 5m30s, 47h, 3d4h, 2y11d (apimachinery's HumanDuration)."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def age(obj: Object, now: datetime.datetime) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)
