"""Reads a scheduler's configuration together with its queue settings, so that all errors are found at
once."""

from __future__ import annotations

import msgspec

from headgate.flow.configuration.picker import of_picker
from headgate.flow.configuration.queueing import Queueing
from headgate.scheduling import configuration


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Queue settings of a file."""

    queueing: Queueing | None
    """None if the file has none, or has errors."""
    problems: tuple[configuration.Problem, ...] = ()
    """Of the whole file."""


def read(document: object, *, allow_alpha: bool | None = False) -> Reading:
    """Read the content of a file; `allow_alpha` as in `scheduling.configuration.read`."""
    scheduling = configuration.read(document, allow_alpha=allow_alpha)
    problems = configuration.Problems()
    queueing = of_picker(scheduling.document, problems) if scheduling.document is not None else None
    found = (*scheduling.problems, *problems.found)
    is_wrong = any(problem.severity == "error" for problem in found)
    return Reading(queueing=None if is_wrong else queueing, problems=found)
