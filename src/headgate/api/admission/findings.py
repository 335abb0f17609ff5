"""Results of the rules: errors, which reject an object, and warnings, which kubectl prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headgate.api.admission.field_cursor import FieldCursor
from headgate.kubeschema.structural import MAX_ERRORS, OMITTED, FieldError

__all__ = ["MAX_WARNINGS", "Findings", "merged"]

MAX_WARNINGS = 20
"""Nobody reads more, and each is a header of the response."""

_LONGEST_WARNING = 380


class Findings:
    """Collects errors and warnings in order; both are bounded."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self.warnings: list[str] = []
        self.within: tuple[str, ...] = ("",)
        """Only what is found at paths that begin with one of these is collected."""

    def invalid(self, place: FieldCursor, detail: str, value: object = OMITTED) -> None:
        """The value (or a more meaningful one) is not allowed here."""
        self._add("FieldValueInvalid", place, detail, place.value if value is OMITTED else value)

    def check(self, place: FieldCursor, form: Callable[[str], Iterable[str]]) -> None:
        """Validate the text, if there is one, with a function of `names`."""
        for complaint in form(place.text or ""):
            self.invalid(place, complaint)

    def required(self, place: FieldCursor, detail: str = "") -> None:
        self._add("FieldValueRequired", place, detail)

    def forbidden(self, place: FieldCursor, detail: str) -> None:
        self._add("FieldValueForbidden", place, detail)

    def duplicate(self, place: FieldCursor) -> None:
        self._add("FieldValueDuplicate", place, "", place.value)

    def not_found(self, place: FieldCursor) -> None:
        """The value refers to something that must exist."""
        self._add("FieldValueNotFound", place, "", place.value)

    def too_long(self, place: FieldCursor, detail: str) -> None:
        self._add("FieldValueTooLong", place, detail)

    def unsupported(self, place: FieldCursor, choices: Sequence[str]) -> None:
        """`choices` are sorted, as Kubernetes lists them."""
        listed = ", ".join(f'"{choice}"' for choice in choices)
        self._add("FieldValueNotSupported", place, f"supported values: {listed}", place.value)

    def warn(self, place: FieldCursor, text: str) -> None:
        """Something is legal, but probably not what the author intends."""
        told = f"{place}: {text}"
        if len(self.warnings) < MAX_WARNINGS and told.startswith(self.within):
            if len(told) > _LONGEST_WARNING:
                told = f"{told[:_LONGEST_WARNING]}..."
            if told not in self.warnings:
                self.warnings.append(told)

    def _add(self, reason: str, place: FieldCursor, detail: str, value: object = OMITTED) -> None:
        if len(self.errors) < MAX_ERRORS and (path := str(place)).startswith(self.within):
            self.errors.append(FieldError(reason, path, detail, value))


def merged(
    schema: Iterable[FieldError], rules: Iterable[FieldError], *, prefer_rules: bool = False
) -> list[FieldError]:
    """The errors of the schema and of the rules, those of metadata first.

    If both have an error for a field, the schema's is kept. With `prefer_rules` it is the rule's: for the
    kinds of Kubernetes, where code checks the limits, with other messages than those of a schema.
    """
    schema, rules = list(schema), list(rules)
    if prefer_rules:
        said = {_plain(error.field) for error in rules}
        schema = [
            error
            for error in schema
            if error.reason != "FieldValueInvalid" or _plain(error.field) not in said
        ]
    said = {_plain(error.field) for error in schema}
    found = schema + [error for error in rules if _plain(error.field) not in said]
    return sorted(found, key=lambda error: not error.field.startswith("metadata"))


def _plain(path: str) -> str:
    """A path in which labels[app] and labels.app are the same."""
    return path.replace("[", ".").replace("]", "")
