"""Problems: parts of an object that cannot take effect as its author intended."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from headgate.api import ObjectKey, ObjectRef

INVALID_ADDRESS = "InvalidAddress"
INVALID_ANNOTATION = "InvalidAnnotation"

Report = Callable[[str, str, str], None]
"""Takes the field, the reason and the message of a problem."""


class Problem(msgspec.Struct, frozen=True):
    """A part of an object that will not do what its author intended."""

    kind: str
    key: ObjectKey
    field: str
    reason: str
    """The kind of problem in one CamelCase word, as in conditions."""
    message: str


class Reporter(NamedTuple):
    """Reports problems of one object; all reporters of a translation share the list."""

    ref: ObjectRef
    problems: list[Problem]

    def report(self, field: str, reason: str, message: str) -> None:
        self.problems.append(Problem(self.ref.kind, self.ref.key, field, reason, message))
