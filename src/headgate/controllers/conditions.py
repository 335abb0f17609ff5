"""From what is found out about an object to the conditions in its status, and to the news in them.

`lastTransitionTime` moves only with the status, conditions of others are kept, and an unchanged finding
makes an equal status, so that nothing is written when nothing changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from headgate import api

MAX_MESSAGE = 32768
"""What meta/v1 Condition allows in a message."""


class Finding(NamedTuple):
    """One condition without its history."""

    type: str
    holds: bool
    reason: str
    message: str


def observed(
    previous: api.ObservedStatus | None, findings: Sequence[Finding], generation: int, now: str
) -> api.ObservedStatus:
    """The status that follows `previous`; `now` is RFC 3339."""
    before = {condition.type: condition for condition in _conditions(previous)}
    ours = [_condition(finding, before.pop(finding.type, None), generation, now) for finding in findings]
    return api.ObservedStatus(conditions=[*ours, *before.values()], observed_generation=generation)


def news(previous: api.ObservedStatus | None, current: api.ObservedStatus) -> list[api.Condition]:
    """The conditions whose status or reason changed. What is seen for the first time and holds is no news."""
    before = {condition.type: condition for condition in _conditions(previous)}
    return [each for each in current.conditions if _is_news(before.get(each.type), each)]


def is_reworded(previous: api.ObservedStatus | None, current: api.ObservedStatus) -> bool:
    """Whether at most messages differ: what holds, why, and of which edit is as it was told before."""
    return previous is not None and _without_words(previous) == _without_words(current)


def enumerated(items: Iterable[str], separator: str = ", ", limit: int = MAX_MESSAGE - 1024) -> str:
    """As many items as fit into `limit` characters, and how many there are besides."""
    items = list(items)
    length = 0
    for shown, item in enumerate(items):
        length += len(item) + len(separator)
        if length > limit and shown:
            return f"{separator.join(items[:shown])} and {len(items) - shown} more"
    return separator.join(items)


def _without_words(status: api.ObservedStatus) -> tuple[object, ...]:
    wordless = [msgspec.structs.replace(condition, message="") for condition in status.conditions]
    return status.observed_generation, wordless


def _conditions(status: api.ObservedStatus | None) -> list[api.Condition]:
    return status.conditions if status else []


def _condition(finding: Finding, old: api.Condition | None, generation: int, now: str) -> api.Condition:
    return api.Condition(
        type=finding.type,
        status="True" if finding.holds else "False",
        reason=finding.reason,
        message=finding.message[:MAX_MESSAGE],
        observed_generation=generation,
    ).after(old, now)


def _is_news(old: api.Condition | None, new: api.Condition) -> bool:
    if old is None:
        return new.status != "True"
    return (old.status, old.reason) != (new.status, new.reason)
