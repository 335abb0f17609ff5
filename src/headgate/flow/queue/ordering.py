"""Orders the requests of one flow: the least key is next; among equals, the oldest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from headgate.flow.queue.settings import OrderingName
from headgate.flow.queue.waiting import Waiting

Key: TypeAlias = Callable[[Waiting], float]


def _first_come(waiting: Waiting) -> float:
    return 0.0


def _earliest_deadline(waiting: Waiting) -> float:
    """The end of its time to live or its client's timeout; infinite without either, which is last."""
    return min(waiting.deadline, waiting.gives_up_at)


def _earliest_objective(waiting: Waiting) -> float:
    """When its first token is due; requests without an objective are last."""
    return waiting.slo_at


KEYS: Mapping[OrderingName, Key] = {
    "fcfs-ordering-policy": _first_come,
    "edf-ordering-policy": _earliest_deadline,
    "slo-deadline-ordering-policy": _earliest_objective,
}
