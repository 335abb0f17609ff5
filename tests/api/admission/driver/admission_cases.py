"""Reads the cases of admission rules, for tests of the rules themselves, of API servers and the webhook."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from headgate.api.admission import enforcement

CASES = Path(__file__).parents[1] / "cases"

Object = dict[str, Any]

_WORDS = {"SEVENTEEN_HEADERS": {f"h{number}": {"exact": "a"} for number in range(17)}}
"""Values that are too long to write down."""


@dataclass(frozen=True)
class Case:
    """An object that breaks one rule."""

    rule: enforcement.Rule
    obj: Object
    before: Object | None
    """The object that is there before the write."""
    others: tuple[Object, ...]
    refused: tuple[str, ...]
    says: str

    def __str__(self) -> str:
        return f"{self.rule.kind}:{self.rule.name}"


@dataclass(frozen=True)
class Base:
    """A valid object, and what it refers to."""

    obj: Object
    others: tuple[Object, ...]


def load_all() -> list[Case]:
    """Every case, in the order of the files."""
    return [
        case for file in sorted(CASES.glob("*.yaml")) for case in _cases(yaml.safe_load(file.read_text()))
    ]


def bases() -> list[Base]:
    """The valid objects that the cases start from."""
    return [Base(each["base"], tuple(each.get("others", ()))) for each in _contents()]


def base(kind: str) -> Base:
    """The valid object of a kind."""
    return next(each for each in bases() if each.obj["kind"] == kind)


def _contents() -> Iterator[Object]:
    return (yaml.safe_load(file.read_text()) for file in sorted(CASES.glob("*.yaml")))


def patched(value: Any, patch: Any) -> Any:
    """The result of a JSON merge patch."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(value) if isinstance(value, dict) else {}
    for name, change in patch.items():
        if change is None:
            result.pop(name, None)
        else:
            result[name] = patched(result.get(name), change)
    return result


def _cases(content: Object) -> Iterator[Case]:
    base, known = content["base"], {rule[:2]: rule for rule in enforcement.RULES}
    for case in content["cases"]:
        without = case.get("without", ())
        others = [each for each in content.get("others", ()) if each["kind"] not in without]
        yield Case(
            rule=known[base["kind"], case["rule"]],
            obj=_spelled_out(patched(base, case.get("change", {}))),
            before=patched(base, case["before"]) if "before" in case else None,
            others=(*others, *case.get("others", ())),
            refused=tuple(case.get("refused", ())),
            says=case.get("says", ""),
        )


def _spelled_out(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _spelled_out(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_spelled_out(item) for item in value]
    return copy.deepcopy(_WORDS[value]) if isinstance(value, str) and value in _WORDS else value
