"""Compares the responses of two servers, and finds the reason for each difference in differences.yaml."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import asking
import yaml
from asking import Server
from normal import Normal
from stories import HERE, Story

ABSENT = "(absent)"
FILE = HERE / "differences.yaml"


@dataclass(frozen=True)
class Difference:
    """A field of a response in which the servers differ."""

    story: str
    request: str
    field: str
    real: Any
    embedded: Any

    def __str__(self) -> str:
        return f"{self.field}\n      real:     {self.real!r:.1200}\n      embedded: {self.embedded!r:.1200}"


@dataclass(frozen=True)
class Reason:
    """An entry of differences.yaml: a difference that is meant to be."""

    real: str
    embedded: str
    reason: str
    requests: tuple[str, ...]
    """Patterns of `STORY / REQUEST`, with `*` for any text."""
    fields: tuple[str, ...]
    """Patterns of fields, with `*` for a step and `**` for any steps."""

    def covers(self, difference: Difference) -> bool:
        asked = f"{difference.story} / {difference.request}"
        return any(_pattern(each, ".*").fullmatch(asked) for each in self.requests) and any(
            _pattern(each, r"[^.]*").fullmatch(difference.field) for each in self.fields
        )


@functools.cache
def _pattern(text: str, star: str) -> re.Pattern[str]:
    parts = [{"**": ".*", "*": star}.get(part, re.escape(part)) for part in re.split(r"(\*\*|\*)", text)]
    return re.compile("".join(parts), re.S)


def reasons() -> list[Reason]:
    """The differences that are meant to be, in the order of the table."""
    told = yaml.safe_load(FILE.read_text()) or []
    return [
        Reason(
            each["kubernetes"],
            each["embedded"],
            each["reason"],
            tuple(each["requests"]),
            tuple(each["fields"]),
        )
        for each in told
    ]


def compare(story: Story, real: Server, embedded: Server, suffix: str) -> list[Difference]:
    """All differences between two servers in a story, whether they have a reason or not."""
    with ThreadPoolExecutor(2) as threads:
        told = list(threads.map(lambda server: asking.tell(story, server, suffix), (real, embedded)))
    normals = Normal(suffix), Normal(suffix)
    found = []
    for request, *responses in zip(story.requests, *told, strict=True):
        values = [normal.response(request, each) for normal, each in zip(normals, responses, strict=True)]
        found += [
            Difference(story.name, request.name, field, *differ) for field, *differ in _differing("", *values)
        ]
    return found


def unlisted(differences: Sequence[Difference], known: Sequence[Reason]) -> list[Difference]:
    """The differences without a reason."""
    return [each for each in differences if not any(reason.covers(each) for reason in known)]


def without_effect(differences: Sequence[Difference], known: Sequence[Reason]) -> list[str]:
    """Patterns of reasons that no difference needs any more."""
    wrong = []
    for reason in known:
        covered = [each for each in differences if reason.covers(each)]
        asked = {f"{each.story} / {each.request}" for each in covered}
        for pattern in reason.requests:
            if not any(_pattern(pattern, ".*").fullmatch(each) for each in asked):
                wrong.append(f"{reason.embedded}: {pattern}")
        for pattern in reason.fields:
            if not any(_pattern(pattern, r"[^.]*").fullmatch(each.field) for each in covered):
                wrong.append(f"{reason.embedded}: {pattern}")
    return wrong


def shown(differences: Sequence[Difference]) -> str:
    """The differences for people, by request."""
    lines, before = [], None
    for each in differences:
        if (each.story, each.request) != before:
            lines.append(f"\n{each.story} / {each.request}")
        before = (each.story, each.request)
        lines.append(f"    {each}")
    return "\n".join(lines)


def grouped(differences: Sequence[Difference]) -> str:
    """The differences for people, each once, with the number of requests and the first of them."""
    groups: dict[str, list[Difference]] = {}
    for each in differences:
        groups.setdefault(str(each), []).append(each)
    parts = []
    for text, group in sorted(groups.items(), key=lambda item: -len(item[1])):
        asked = list(dict.fromkeys(f"{each.story} / {each.request}" for each in group))
        parts.append(f"\n{len(asked)} x {'; '.join(asked[:3])}\n    {text}")
    return "\n".join(parts)


def _differing(path: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    if one == other and type(one) is type(other):
        return
    if isinstance(one, dict) and isinstance(other, dict):
        for name in dict.fromkeys([*one, *other]):
            step = f"{path}.{name.replace('.', ':')}" if path else name
            yield from _differing(step, one.get(name, ABSENT), other.get(name, ABSENT))
    elif isinstance(one, list) and isinstance(other, list):
        for index in range(max(len(one), len(other))):
            values = [each[index] if index < len(each) else ABSENT for each in (one, other)]
            yield from _differing(f"{path}.{index}", *values)
    else:
        yield path, one, other
