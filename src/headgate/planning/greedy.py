"""The choices of the reference: the best candidate of each server alone, or, with limits, one server by one.

Servers are taken by priority, those first that would lose most with their next candidate. Servers that
could not be served may get what is left, by a saturation policy.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from headgate.planning.candidates import Candidate, Entry
from headgate.planning.system import Optimizer

__all__ = ["limited", "unlimited"]

_NO_OTHER: Final = math.inf


def unlimited(entries: Iterable[Entry]) -> dict[str, Candidate]:
    """The candidate of least value for each server that has any."""
    return {each.server.name: each.candidates[0] for each in entries if each.candidates}


def limited(entries: Sequence[Entry], capacity: dict[str, int], optimizer: Optimizer) -> dict[str, Candidate]:
    """Candidates that keep to the capacity; with a saturation policy, also parts of them."""
    turns = sorted((_Turn(entry) for entry in entries if entry.candidates), key=_Turn.order)
    chosen = _Chosen(capacity)
    if optimizer.delayed_best_effort:
        _best_effort(chosen, _allocate(chosen, turns), optimizer.saturation_policy)
    else:
        for group in _groups(turns):
            _best_effort(chosen, _allocate(chosen, group), optimizer.saturation_policy)
    return chosen.allocations


class _Turn:
    """A server in the line, and which of its candidates is next."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.index = 0

    @property
    def candidate(self) -> Candidate:
        return self.entry.candidates[self.index]

    def order(self) -> tuple[float, float, float]:
        following = self.index + 1
        loss = _NO_OTHER
        if following < len(self.entry.candidates):
            loss = self.entry.candidates[following].value - self.candidate.value
        return self.entry.priority, -loss, -self.candidate.value


class _Chosen:
    """Allocations so far, and accelerators that are left."""

    def __init__(self, capacity: dict[str, int]) -> None:
        self.left = dict(capacity)
        self.allocations: dict[str, Candidate] = {}

    def most(self, candidate: Candidate) -> int:
        """Replicas of it that fit; all of a candidate that needs no accelerator."""
        if not candidate.units:
            return candidate.replicas
        return self.left.get(candidate.type, 0) // candidate.units

    def take(self, name: str, candidate: Candidate, replicas: int) -> None:
        if candidate.units:
            self.left[candidate.type] = self.left.get(candidate.type, 0) - replicas * candidate.units
        share = replicas / candidate.replicas if candidate.replicas else 1.0
        self.allocations[name] = msgspec.structs.replace(
            candidate, replicas=replicas, cost=candidate.cost * share, value=candidate.value * share
        )


def _groups(turns: Sequence[_Turn]) -> Iterator[list[_Turn]]:
    """Of the same priority, in order."""
    for _, group in itertools.groupby(turns, key=lambda turn: turn.entry.priority):
        yield list(group)


def _allocate(chosen: _Chosen, turns: Sequence[_Turn]) -> list[_Turn]:
    """Serve those whose candidate fits, and send the others back into the line with their next one.

    Returns those that have no candidate left.
    """
    line, unserved = list(turns), []
    while line:
        turn = line.pop(0)
        if chosen.most(turn.candidate) >= turn.candidate.replicas:
            chosen.take(turn.entry.server.name, turn.candidate, turn.candidate.replicas)
        elif turn.index + 1 < len(turn.entry.candidates):
            turn.index += 1
            bisect.insort_left(line, turn, key=_Turn.order)
        else:
            unserved.append(turn)
    return unserved


def _best_effort(chosen: _Chosen, unserved: Sequence[_Turn], policy: str) -> None:
    match policy:
        case "PriorityExhaustive":
            for turn in unserved:
                _exhaust(chosen, turn.entry)
        case "PriorityRoundRobin":
            for group in _groups(unserved):
                _share(chosen, [turn.entry for turn in group])
        case "RoundRobin":
            _share(chosen, [turn.entry for turn in unserved])


def _exhaust(chosen: _Chosen, entry: Entry) -> None:
    """As many replicas as fit, of the first candidate of which any fit."""
    for candidate in entry.candidates:
        if number := min(chosen.most(candidate), candidate.replicas):
            chosen.take(entry.server.name, candidate, number)
            return


def _share(chosen: _Chosen, entries: Sequence[Entry]) -> None:
    """One replica each in turn, of the first candidate of which any fit when the turns begin."""
    numbers: dict[str, int] = {}
    picked = [(each, next((c for c in each.candidates if chosen.most(c)), None)) for each in entries]
    active = [(each, candidate) for each, candidate in picked if candidate is not None]
    left = dict(chosen.left)
    while active:
        active = [
            (each, candidate) for each, candidate in active if _take_one(left, numbers, each, candidate)
        ]
    for each, candidate in picked:
        if candidate is not None and (number := numbers.get(each.server.name, 0)):
            chosen.take(each.server.name, candidate, number)


def _take_one(left: dict[str, int], numbers: dict[str, int], entry: Entry, candidate: Candidate) -> bool:
    name = entry.server.name
    if numbers.get(name, 0) >= candidate.replicas or left.get(candidate.type, 0) < candidate.units:
        return False
    left[candidate.type] -= candidate.units
    numbers[name] = numbers.get(name, 0) + 1
    return True
