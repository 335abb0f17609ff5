"""Durations in objects: Go's syntax, and the bounds of a rule."""

from __future__ import annotations

from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.kubeschema import duration

__all__ = ["check", "nanoseconds"]


def nanoseconds(place: FieldCursor) -> int | None:
    """The duration of a field; None if there is none, or if it is invalid."""
    if place.text is None:
        return None
    try:
        return duration.parse_ns(place.text)
    except duration.DurationError:
        return None


def check(place: FieldCursor, found: Findings, *, longest: str = "") -> None:
    """Reject an invalid duration; with `longest`, also one outside of 0s to that."""
    if place.text is None:
        return
    try:
        length = duration.parse_ns(place.text)
    except duration.DurationError as error:
        found.invalid(place, f'{error}; write numbers with units, as in "1m30s" or "100ms"')
        return
    if longest and not 0 <= length <= duration.parse_ns(longest):
        found.invalid(place, f"must be between 0s and {longest}")
