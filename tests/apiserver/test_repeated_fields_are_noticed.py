"""Whether JSON repeats a field is told from its quotes, and must not depend on what the texts hold."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from headgate.apiserver.handlers import bodies


class Fields(list[tuple[str, Any]]):
    """The fields of a JSON object, which may repeat a name."""


TEXTS = st.text(st.sampled_from('ab"\\/\né\x7f😀'), max_size=4)
VALUES = st.recursive(
    TEXTS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(TEXTS, inner), max_size=3).map(Fields),
    max_leaves=8,
)


def written(value: Any, escape_all: bool) -> str:
    match value:
        case Fields():
            return (
                "{" + ", ".join(f"{text(n, escape_all)} : {written(v, escape_all)}" for n, v in value) + "}"
            )
        case list():
            return "[" + ", ".join(written(item, escape_all) for item in value) + "]"
        case str():
            return text(value, escape_all)
    return json.dumps(value)


def text(value: str, escape_all: bool) -> str:
    if not escape_all:
        return json.dumps(value, ensure_ascii=False)
    units = value.encode("utf-16-be")
    return '"' + "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)) + '"'


def repeats(value: Any) -> bool:
    if isinstance(value, Fields):
        names = [name for name, _ in value]
        return len(set(names)) < len(names) or any(repeats(inner) for _, inner in value)
    return isinstance(value, list) and any(map(repeats, value))


@given(VALUES, st.booleans())
@example(Fields([("a", "\\"), ("a", '"')]), False)
@example(Fields([("a", '"'), ("b", '\\"')]), True)
def test_a_repeated_field_is_told_and_no_other(value: Any, escape_all: bool) -> None:
    """However quotes and backslashes stand in names and values, escaped in either way."""
    _, complaints = bodies.decode_json(written(value, escape_all).encode())
    assert bool(complaints) == repeats(value)
