"""What an object says that will not do what its author meant, and how that is reported."""

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
    """Something in an object that will not do what its author meant."""

    kind: str
    key: ObjectKey
    field: str
    reason: str
    """The kind of problem in one CamelCase word, as conditions have it."""
    message: str


class Reporter(NamedTuple):
    """Of one object; all reporters of a translation share the list."""

    ref: ObjectRef
    problems: list[Problem]

    def report(self, field: str, reason: str, message: str) -> None:
        self.problems.append(Problem(self.ref.kind, self.ref.key, field, reason, message))
