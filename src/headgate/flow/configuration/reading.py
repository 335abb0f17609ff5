"""The configuration of a scheduler with what it says of waiting: one look at the file finds all errors."""

from __future__ import annotations

import msgspec

from headgate.flow.configuration.picker import of_picker
from headgate.flow.configuration.queueing import Queueing
from headgate.scheduling import configuration


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a file says of waiting."""

    queueing: Queueing | None
    """None if it says nothing, or if there are errors."""
    problems: tuple[configuration.Problem, ...] = ()
    """Of all of the file."""


def read(document: object, *, allow_alpha: bool | None = False) -> Reading:
    """From the content of a file; `allow_alpha` as for `scheduling.configuration.read`."""
    scheduling = configuration.read(document, allow_alpha=allow_alpha)
    problems = configuration.Problems()
    queueing = of_picker(scheduling.document, problems) if scheduling.document is not None else None
    found = (*scheduling.problems, *problems.found)
    is_wrong = any(problem.severity == "error" for problem in found)
    return Reading(queueing=None if is_wrong else queueing, problems=found)
