"""Errors, warnings and notes about a configuration."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Literal

import msgspec


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One error, or one setting without effect: a warning, or a note if nothing is missing."""

    path: str
    """Path of the field, such as plugins[2].parameters.threshold."""
    message: str
    suggestion: str = ""
    severity: Literal["error", "warning", "note"] = "error"
    is_name: bool = False
    """Whether the name of the field is wrong, and not its value."""


class Problems:
    """Collects problems, so that all are reported at once."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def error(self, path: str, message: str, suggestion: str = "") -> None:
        self.found.append(Problem(path=path, message=message, suggestion=suggestion))

    def unknown(self, path: str, suggestion: str) -> None:
        message = "there is no such field"
        self.found.append(Problem(path=path, message=message, suggestion=suggestion, is_name=True))

    def warning(self, path: str, message: str, suggestion: str = "") -> None:
        self.found.append(Problem(path=path, message=message, suggestion=suggestion, severity="warning"))

    def note(self, path: str, message: str) -> None:
        self.found.append(Problem(path=path, message=message, severity="note"))

    @property
    def has_errors(self) -> bool:
        return any(problem.severity == "error" for problem in self.found)


_MAX_NAMES = 12


def meant(word: str, known: Iterable[str]) -> str:
    """A suggestion for an unknown word: the most similar known one, or else the list of known ones."""
    names = sorted(known)
    folded = {name.lower(): name for name in names}
    near = difflib.get_close_matches(word[:64].lower(), folded, 1, 0.6)
    if near:
        return f"did you mean {folded[near[0]]}?"
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"known are {', '.join(names[:_MAX_NAMES])}{more}" if names else "remove it"
