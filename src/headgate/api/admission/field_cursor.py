"""A cursor into a plain object that may be malformed: it never raises, and knows its field path.

The rules of this room run beside the schema, not after it, so that all errors are reported at once. The
schema reports fields of a wrong type; here they count as absent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["FieldCursor", "whole"]

_NOTHING: dict[str, Any] = {}


def whole(value: object) -> int | None:
    """An integer, also one written as 1.0; None for anything else."""
    if isinstance(value, int):
        return None if isinstance(value, bool) else value
    return int(value) if isinstance(value, float) and value.is_integer() else None


class FieldCursor:
    """One value of an object. The path is rendered only if there is something to report."""

    __slots__ = ("_parent", "_step", "value")

    def __init__(
        self, value: object, parent: FieldCursor | None = None, step: str | int | tuple[str] = ""
    ) -> None:
        """`step` leads here from the parent: a field, an index, or the key of a map in a tuple."""
        self.value: Any = value
        self._parent = parent
        self._step = step

    def __getitem__(self, name: str) -> FieldCursor:
        """The field of that name; its value is None if it is missing."""
        value = self.value
        return FieldCursor(value.get(name) if isinstance(value, dict) else None, self, name)

    def get(self, name: str) -> Any:
        """The value of a field, or None. Cheaper than a cursor, as most fields are valid."""
        value = self.value
        return value.get(name) if isinstance(value, dict) else None

    def at(self, path: str) -> FieldCursor:
        """The field at a dotted path: `at("spec.template.spec")`."""
        place = self
        for name in path.split("."):
            place = place[name]
        return place

    def key(self, name: str) -> FieldCursor:
        """The entry of a map, which Kubernetes writes as `labels[name]`."""
        value = self.value
        return FieldCursor(value.get(name) if isinstance(value, dict) else None, self, (name,))

    def __str__(self) -> str:
        steps: list[str] = []
        place = self
        while place._parent is not None:
            match place._step:
                case int(index):
                    steps.append(f"[{index}]")
                case (key,):
                    steps.append(f"[{key}]")
                case name:
                    steps.append(f".{name}")
            place = place._parent
        return "".join(reversed(steps)).removeprefix(".")

    @property
    def label(self) -> str:
        """The last step alone: "rules[2]" of "spec.rules[2]"."""
        return str(self).rpartition(".")[2]

    @property
    def present(self) -> bool:
        return self.value is not None

    @property
    def text(self) -> str | None:
        return self.value if isinstance(self.value, str) else None

    @property
    def integer(self) -> int | None:
        return whole(self.value)

    @property
    def mapping(self) -> dict[str, Any]:
        return self.value if isinstance(self.value, dict) else _NOTHING

    @property
    def texts(self) -> dict[str, str]:
        """The entries of a map whose values are text."""
        return {key: value for key, value in self.mapping.items() if isinstance(value, str)}

    @property
    def is_empty(self) -> bool:
        """Whether it is an empty list, map or text."""
        return isinstance(self.value, list | dict | str) and not self.value

    def items(self) -> Iterator[FieldCursor]:
        """The items of a list."""
        if isinstance(self.value, list):
            for index, item in enumerate(self.value):
                yield FieldCursor(item, self, index)

    def entries(self) -> Iterator[tuple[str, FieldCursor]]:
        """The keys and values of a map."""
        for name, value in self.mapping.items():
            yield name, FieldCursor(value, self, (name,))
