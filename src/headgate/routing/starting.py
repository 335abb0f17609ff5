"""Reads from a pool's annotations whether it is started by its requests: it may be scaled to zero."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.api import marks
from headgate.routing.problems import INVALID_ANNOTATION, Report
from headgate.routing.snapshot import Start


def start(annotations: Mapping[str, str], report: Report) -> Start | None:
    """The start of a pool without endpoints; None if requests do not cause one. An invalid annotation is
    reported, and counts as absent."""
    try:
        expected_s = marks.start_s(annotations)
    except marks.InvalidAnnotationError as error:
        told = f"{error}; until then, the pool counts as one that is not scaled from zero"
        report(f"metadata.annotations[{error.annotation}]", INVALID_ANNOTATION, told)
        return None
    return None if expected_s is None else Start(expected_s, marks.start_failure(annotations))
