"""Detects the dialect of a configuration, and reads it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate.scheduling.configuration import kthena, picker
from headgate.scheduling.configuration.document import Document, passes_bodies
from headgate.scheduling.configuration.fields import read_struct, shown
from headgate.scheduling.configuration.plan import Plan
from headgate.scheduling.configuration.problems import Problem, Problems


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading a file."""

    plan: Plan | None
    """None if there are errors."""
    document: Document | None = None
    """An endpoint picker's file, as far as it is readable, for readers of its other parts."""
    problems: tuple[Problem, ...] = ()

    @property
    def passes_bodies(self) -> bool:
        """Whether an endpoint picker does not read bodies."""
        return self.document is not None and passes_bodies(self.document)


def is_configuration(document: object) -> bool:
    """Whether a document is meant as a scheduler's configuration, valid or not."""
    if not isinstance(document, Mapping):
        return False
    return document.get("kind") == picker.KIND or kthena.is_kthena(document)


def read(document: object, *, allow_alpha: bool | None = False) -> Reading:
    """Read the content of a file. Experimental plugins are allowed with `allow_alpha`; with None, they are
    warned about."""
    problems = Problems()
    plan: Plan | None = None
    said: Document | None = None
    if isinstance(document, Mapping) and document.get("kind") == "ConfigMap":
        names = document.get("data")
        within = ", ".join(map(str, names)) if isinstance(names, Mapping) else "data"
        fix = f"write what is under {within} into a file of its own"
        problems.error("kind", "a ConfigMap holds a configuration, and is none", fix)
    elif isinstance(document, Mapping) and kthena.is_kthena(document):
        plan = kthena.read(document, problems)
    elif isinstance(document, Mapping) and ("kind" in document or "plugins" in document):
        said = read_struct(Document, document, "", problems)
        if said is not None:
            plan = picker.read(said, problems, allow_alpha=allow_alpha)
    else:
        problems.error(
            "",
            f"this is not a scheduling configuration: {shown(document)}",
            f"it begins with `kind: {picker.KIND}`, or as Kthena's does with `scheduler:`",
        )
    return Reading(plan=None if problems.has_errors else plan, document=said, problems=tuple(problems.found))
