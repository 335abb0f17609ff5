"""Splits the requests of a rule over its targets in proportion to their weights."""

from __future__ import annotations

import math
from collections.abc import Iterable

from headgate.api import ObjectRef
from headgate.routing.snapshot import Route, Rule, Target


class WeightedSplit:
    """Deterministic weighted turns: each target is always within one request of its exact share.

    Every turn each target gains its weight as credit, and the one that serves pays the sum of the weights, so
    credits always add up to zero. Among those with enough credit, the one serves that would be the first to
    fall a whole request behind: R. Tijdeman, The chairman assignment problem, Discrete Math. 32 (1980).
    (Choosing the largest credit, as nginx's smooth round robin does, leaves some more than a request behind.)
    A window that begins within a round begins with credits, so it is within two requests.
    """

    __slots__ = ("_credits", "_total", "targets")

    def __init__(self, targets: tuple[Target, ...], phase: float = 0.0) -> None:
        """`phase`: the part of a round (0 to 1) to start after, so that workers do not move in step."""
        self.targets = tuple(target for target in targets if target.weight > 0)
        self._total = sum(target.weight for target in self.targets)
        self._credits = [0] * len(self.targets)
        shortest = math.gcd(*(target.weight for target in self.targets))
        for _ in range(int(phase * (self._total // shortest)) if self._total else 0):
            self.next()

    def next(self) -> Target | None:
        """The target of the next request; None if no target has a weight."""
        targets = self.targets
        if len(targets) <= 1:
            return targets[0] if targets else None
        credits_, total = self._credits, self._total
        parts = 2 * len(targets) - 2
        limit = total * (parts - 1)
        chosen, chosen_slack, chosen_weight = -1, 0, 1
        for index, target in enumerate(targets):
            weight = target.weight
            credits_[index] = credit = credits_[index] + weight
            if credit * parts < total:
                continue
            # divided by the weight: the turns until it would be too far behind
            slack = limit - credit * parts
            if chosen < 0 or slack * chosen_weight < chosen_slack * weight:
                chosen, chosen_slack, chosen_weight = index, slack, weight
        credits_[chosen] -= total
        return targets[chosen]

    def peek(self) -> Target | None:
        """What `next` would return, without taking the turn."""
        copied = WeightedSplit(self.targets)
        copied._credits = self._credits.copy()
        return copied.next()

    def validate(self) -> None:
        """Check the invariants; for tests."""
        assert sum(self._credits) == 0
        assert all(abs(credit) < self._total for credit in self._credits)


class Splits:
    """The turns of every rule, kept while its targets stay the same, whatever else changes."""

    def __init__(self, phase: float = 0.0) -> None:
        self._phase = phase
        self._splits: dict[ObjectRef, dict[tuple[Target, ...], WeightedSplit]] = {}

    def next(self, route: ObjectRef, rule: Rule) -> Target | None:
        """The target of the next request of a rule; None if all its weights are 0."""
        targets = rule.targets
        if len(targets) == 1:
            return targets[0] if targets[0].weight else None
        of_route = self._splits.get(route)
        if of_route is None:
            of_route = self._splits[route] = {}
        split = of_route.get(targets)
        if split is None:
            split = of_route[targets] = WeightedSplit(targets, self._phase)
        return split.next()

    def peek(self, route: ObjectRef, rule: Rule) -> Target | None:
        """What `next` would return, without taking the turn."""
        split = self._splits.get(route, {}).get(rule.targets) or WeightedSplit(rule.targets, self._phase)
        return split.peek()

    def change(self, left: Iterable[Route], came: Iterable[Route]) -> None:
        """Forget the turns of routes that left, except for rules that came back with the same targets."""
        kept: dict[ObjectRef, set[tuple[Target, ...]]] = {}
        for route in came:
            kept.setdefault(route.key, set()).update(rule.targets for rule in route.rules)
        for key in {route.key for route in left}:
            found = self._splits.pop(key, {})
            remaining = {targets: split for targets, split in found.items() if targets in kept.get(key, ())}
            if remaining:
                self._splits[key] = remaining

    def statistics(self) -> dict[str, int]:
        return {"splits": sum(map(len, self._splits.values()))}
