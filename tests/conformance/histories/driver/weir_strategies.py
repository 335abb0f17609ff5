"""What writers may want of a Weir: few values, so that many want the same and many something else."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from weir_fields import ITEM, Path
from weir_model import TIER

WIDTH: Path = ("spec", "width")
BOARD = st.fixed_dictionaries(
    {}, optional={"thickness": st.integers(1, 2), "wood": st.sampled_from(["fir", "elm"])}
)
PARTS: dict[str, st.SearchStrategy[Any]] = {
    "tier": st.sampled_from("xy"),
    "material": st.sampled_from(["oak", "steel"]),
    "note a": st.sampled_from("12"),
    "note b": st.sampled_from("12"),
    "place": st.sampled_from([{"north": 1}, {"north": 1, "east": 2}]),
    "tag x": st.just(ITEM),
    "tag y": st.just(ITEM),
    "board a": BOARD,
    "board b": BOARD,
}
EVERYTHING: dict[str, Any] = {
    "width": 1,
    "tier": "x",
    "material": "steel",
    "note a": "1",
    "note b": "1",
    "place": {"north": 1, "east": 2},
    "tag x": ITEM,
    "tag y": ITEM,
    "board a": {"thickness": 1},
    "board b": {"wood": "elm"},
}
WIDTHS = st.integers(1, 3)
WANTED = st.fixed_dictionaries({"width": WIDTHS}, optional=PARTS)
CHANGES = st.fixed_dictionaries(
    {}, optional={"width": WIDTHS, **{k: st.none() | v for k, v in PARTS.items()}}
)
"""Some parts anew; None takes a part away."""
SOME_PARTS = st.sets(st.sampled_from(sorted(PARTS)))


def path_of(part: str) -> Path:
    """The path of a part; that of a board has others below it."""
    kind, _, name = part.partition(" ")
    parents = {"note": "notes", "tag": "tags", "board": "boards"}
    if part == "tier":
        return TIER
    return ("spec", parents[kind], name) if name else ("spec", kind)


def fields_of(parts: dict[str, Any]) -> dict[Path, Any]:
    """The fields that these parts are."""
    fields: dict[Path, Any] = {}
    for part, value in parts.items():
        path = path_of(part)
        if part.startswith("board"):
            fields |= {path: ITEM, (*path, "id"): path[-1]}
            fields |= {(*path, name): inner for name, inner in value.items()}
        else:
            fields[path] = value
    return fields


def changed(fields: dict[Path, Any], changes: dict[str, Any]) -> dict[Path, Any]:
    """The fields with each changed part as it is to be, or without it."""
    tops = [path_of(part) for part in changes]
    kept = {p: v for p, v in fields.items() if not any(p[: len(top)] == top for top in tops)}
    return kept | fields_of({part: value for part, value in changes.items() if value is not None})


def chosen(fields: dict[Path, Any], parts: set[str]) -> dict[Path, Any]:
    """Of the fields, those of the width and of these parts."""
    tops = [WIDTH, *(path_of(part) for part in parts)]
    return {p: v for p, v in fields.items() if any(p[: len(top)] == top for top in tops)}


def merge_patch(old: Any, new: Any) -> dict[str, Any]:
    """The JSON merge patch that makes the new object of the old one."""
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := merge_patch(before, value):
                patch[name] = inner
        elif value != before:
            patch[name] = value
    return patch
