"""Durations in objects, in Go's syntax."""

from __future__ import annotations

from headgate.api.admission.field_cursor import FieldCursor
from headgate.kubeschema import duration

__all__ = ["nanoseconds"]


def nanoseconds(place: FieldCursor) -> int | None:
    """The duration of a field; None if there is none, or if it is invalid."""
    if place.text is None:
        return None
    try:
        return duration.parse_ns(place.text)
    except duration.DurationError:
        return None
