"""Checks Headgate's annotations: unknown, incomplete or invalid ones."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from headgate.api import marks, weights
from headgate.api.admission import durations
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.marks import ANNOTATIONS, EndpointTls, InvalidAnnotationError

__all__ = ["warn_of_grace", "warn_of_own", "warn_of_start", "warn_of_tls", "warn_of_weights"]


def warn_of_own(kinds: str, annotations: FieldCursor, known: Collection[str], found: Findings) -> None:
    """Warn of annotations that are not `known`; `kinds` is the kind in the plural."""
    written = annotations.texts
    for name in written:
        if name.startswith(marks.DOMAIN) and name not in known:
            near = difflib.get_close_matches(name, sorted(known), 1, 0.8)
            told = f"; did you mean {near[0]}?" if near else ""
            found.warn(annotations.key(name), f"no annotation of {kinds} has this name{told}")
    for name in (marks.KV_EVENTS_REPLAY, marks.KV_EVENTS_RANKS):
        if name in written and marks.KV_EVENTS not in written:
            told = f"has an effect only on Pods that have {marks.KV_EVENTS} themselves"
            found.warn(annotations.key(name), told)


def warn_of_start(annotations: FieldCursor, found: Findings) -> None:
    """Warn of an expected time that is none, and of a failure that is not reported."""
    try:
        expected_s = marks.start_s(annotations.texts)
    except InvalidAnnotationError as error:
        found.warn(annotations.key(error.annotation), f"{error}; until then no request waits for a start")
        return
    if expected_s is None and marks.START_FAILED in annotations.texts:
        found.warn(annotations.key(marks.START_FAILED), f"has no effect without {marks.SCALE_FROM_ZERO}")


def warn_of_weights(annotations: FieldCursor, found: Findings) -> None:
    """Warn of weights that are none."""
    try:
        weights.of_pool(annotations.texts)
    except InvalidAnnotationError as error:
        found.warn(annotations.key(error.annotation), f"{error}; until then, it has no effect")


def warn_of_grace(annotations: FieldCursor, least: int | None, found: Findings) -> None:
    """Warn of a grace period that is none, or that has no effect with `least` replicas."""
    grace = annotations.key(marks.ZERO_GRACE_PERIOD)
    if grace.text is None:
        return
    if durations.nanoseconds(grace) is None:
        found.warn(grace, f'"{grace.text[:64]}" is no duration, such as 5m: until then one replica stays')
    elif least:
        found.warn(grace, "has no effect unless minReplicas is 0")


def warn_of_tls(annotations: FieldCursor, *, is_https: bool, needed: str, found: Findings) -> None:
    """`needed` is the setting that makes endpoints of the kind use https."""
    written = [name for name in ANNOTATIONS if name in annotations.texts]
    if not written:
        return
    if not is_https:
        for name in written:
            found.warn(annotations.key(name), f"has no effect without {needed}")
        return
    try:
        asked = EndpointTls.parse(annotations.texts)
    except InvalidAnnotationError as error:
        found.warn(annotations.key(error.annotation), f"{error}; until then no Pod gets requests")
        return
    if asked.insecure:
        told = "anyone who takes the address of a Pod can read and answer its requests"
        found.warn(annotations.key(marks.TLS_INSECURE), told)
