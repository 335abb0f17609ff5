"""The subset of Kubernetes' JSONPath for printer columns: fields, indexes, wildcards, equality filters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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
MAX_VALUES = 2000
"""Values that the paths of one row of a Table may visit together."""
_LITERALS: dict[str, Any] = {"true": True, "false": False}


class Budget:
    """How many more values the paths of one row may visit."""

    def __init__(self, values: int = MAX_VALUES) -> None:
        self._left = values

    def spend(self) -> bool:
        """Count one value; False if the budget is used up."""
        self._left -= 1
        return self._left >= 0


@dataclass(frozen=True)
class _Field:
    name: str

    def apply(self, value: Any, budget: Budget) -> Iterable[Any]:
        if isinstance(value, dict) and self.name in value:
            yield value[self.name]


@dataclass(frozen=True)
class _Index:
    index: int

    def apply(self, value: Any, budget: Budget) -> Iterable[Any]:
        if isinstance(value, list) and -len(value) <= self.index < len(value):
            yield value[self.index]


@dataclass(frozen=True)
class _All:
    def apply(self, value: Any, budget: Budget) -> Iterable[Any]:
        if isinstance(value, list):
            yield from value
        elif isinstance(value, dict):
            yield from value.values()


@dataclass(frozen=True)
class _Filter:
    inner: JSONPath
    equal: bool
    literal: Any

    def apply(self, value: Any, budget: Budget) -> Iterable[Any]:
        for item in value if isinstance(value, list) else ():
            if not budget.spend():
                return
            for found in self.inner.find(item, budget):
                if (found == self.literal) is self.equal:
                    yield item
                break


_Step = _Field | _Index | _All | _Filter


@dataclass(frozen=True)
class JSONPath:
    """A parsed path."""

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

    def find(self, value: Any, budget: Budget) -> Iterator[Any]:
        """The matching values in order, evaluated lazily; ends early when the budget is used up."""
        open_steps = [iter((value,))]
        while open_steps:
            for found in open_steps[-1]:
                if not budget.spend():
                    return
                if len(open_steps) > len(self.steps):
                    yield found
                    continue
                step = self.steps[len(open_steps) - 1]
                open_steps.append(iter(step.apply(found, budget)))
                break
            else:
                open_steps.pop()


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
