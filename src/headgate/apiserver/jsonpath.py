"""The part of Kubernetes' JSONPath that printer columns use: fields, indexes, wildcards, equality filters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(
    r"""
    \.(?P<field>(?:\\.|[^.\[\]\\'"()@?*\s])+)                       # .name, with \. for a dot in it
  | \[(?P<quote>['"])(?P<quoted>(?:\\.|(?!(?P=quote)).)+)(?P=quote)\]   # ['name']
  | \[(?P<index>-?\d+)\]                                            # [0]
  | (?P<all>\[\*\]|\.\*)                                            # [*]
  | \[\?\(@(?P<inner>(?:\.[^.\[\]=!\s]+)+)\s*(?P<op>==|!=)\s*
      (?P<literal>"[^"]*"|'[^']*'|-?\d+(?:\.\d+)?|true|false)\s*\)\]     # [?(@.type=="Ready")]
    """,
    re.VERBOSE,
)
_LITERALS: dict[str, Any] = {"true": True, "false": False}


@dataclass(frozen=True)
class _Field:
    name: str

    def apply(self, value: Any) -> Iterable[Any]:
        if isinstance(value, dict) and self.name in value:
            yield value[self.name]


@dataclass(frozen=True)
class _Index:
    index: int

    def apply(self, value: Any) -> Iterable[Any]:
        if isinstance(value, list) and -len(value) <= self.index < len(value):
            yield value[self.index]


@dataclass(frozen=True)
class _All:
    def apply(self, value: Any) -> Iterable[Any]:
        if isinstance(value, list):
            yield from value
        elif isinstance(value, dict):
            yield from value.values()


@dataclass(frozen=True)
class _Filter:
    inner: JSONPath
    equal: bool
    literal: Any

    def apply(self, value: Any) -> Iterable[Any]:
        for item in value if isinstance(value, list) else ():
            found = self.inner.find(item)
            if found and (found[0] == self.literal) is self.equal:
                yield item


_Step = _Field | _Index | _All | _Filter


@dataclass(frozen=True)
class JSONPath:
    """A parsed path; `find` gives all values there, in order."""

    steps: tuple[_Step, ...]

    @classmethod
    def parse(cls, text: str) -> JSONPath:
        steps: list[_Step] = []
        position = 0
        while position < len(text):
            if not (match := _TOKEN.match(text, position)):
                raise ValueError(f"{text!r} is no JSONPath that we know: stuck at {text[position:]!r}")
            steps.append(_step(match))
            position = match.end()
        if not steps:
            raise ValueError("a JSONPath must not be empty; write .spec.field")
        return cls(tuple(steps))

    def find(self, value: Any) -> list[Any]:
        values = [value]
        for step in self.steps:
            values = [found for value in values for found in step.apply(value)]
        return values


def _step(match: re.Match[str]) -> _Step:
    groups = match.groupdict()
    if groups["field"]:
        return _Field(_unescaped(groups["field"]))
    if groups["quoted"]:
        return _Field(_unescaped(groups["quoted"]))
    if groups["index"]:
        return _Index(int(groups["index"]))
    if groups["all"]:
        return _All()
    return _Filter(JSONPath.parse(groups["inner"]), groups["op"] == "==", _literal(groups["literal"]))


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _literal(text: str) -> Any:
    if text[0] in "\"'":
        return text[1:-1]
    return _LITERALS[text] if text in _LITERALS else float(text)
