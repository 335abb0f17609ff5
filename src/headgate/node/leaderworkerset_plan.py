"""How many groups of a LeaderWorkerSet there are, and which ones get its newest template. Pure.

The rules are those of the project LWS. A rollout goes from the last group to the first. It releases groups to
the newest template, and a released group is never taken back: groups below the release keep their template,
also if they are recreated. While groups are missing, surge groups with the highest numbers serve in their
place. Each call makes one step; the next one follows when the groups have reacted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.api import leaderworkersets
from headgate.node import deployment_plan


@dataclass(frozen=True)
class Group:
    """One group as the plan sees it."""

    ready: bool
    """Its leader and all of its workers are ready."""
    updated: bool
    """It was created from the newest template."""


@dataclass(frozen=True)
class Wish:
    """The parameters of a set, with percentages resolved."""

    replicas: int
    max_surge: int
    max_unavailable: int
    partition: int


@dataclass(frozen=True)
class Step:
    groups: int
    """Groups that there should be, with numbers from 0."""
    released: int
    """Groups from this number on have the newest template."""


_MISSING = Group(ready=False, updated=False)


def wish(spec: leaderworkersets.LeaderWorkerSetSpec) -> Wish:
    """The strategy in numbers: surge rounds up, unavailable rounds down, and one of them is not 0.

    Raises ValueError.
    """
    limits = spec.rollout_strategy.rolling_update_configuration
    field = "spec.rolloutStrategy.rollingUpdateConfiguration"
    surge = deployment_plan.resolved(limits.max_surge, spec.replicas, field, up=True)
    unavailable = deployment_plan.resolved(limits.max_unavailable, spec.replicas, field, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Wish(spec.replicas, min(surge, spec.replicas), unavailable, limits.partition)


def plan(wanted: Wish, groups: Mapping[int, Group], released: int) -> Step:
    """The next step, given the existing groups by number."""
    return Step(_size(wanted, groups), _release(wanted, groups, released))


def _size(wanted: Wish, groups: Mapping[int, Group]) -> int:
    finished = sum(number < wanted.replicas and _is_done(groups, number) for number in groups)
    unfinished = wanted.replicas - finished
    size = wanted.replicas + min(wanted.max_surge, unfinished)
    if _is_rolling(wanted, groups):
        return size
    # Outside of a rollout, surge groups may stay until the others are ready, but none is created.
    return min(size, max(wanted.replicas, _existing(groups)))


def _release(wanted: Wish, groups: Mapping[int, Group], released: int) -> int:
    existing = min(max(_existing(groups), wanted.replicas), wanted.replicas + wanted.max_surge)
    at_once = wanted.max_unavailable + existing - wanted.replicas
    done = 0
    while done < existing and _is_done(groups, existing - 1 - done):
        done += 1
    lowest = max(0, existing - done - at_once)
    # Each group below that is not ready takes the place of one that could be replaced.
    reached = 2 * lowest - sum(number < lowest and group.ready for number, group in groups.items())
    # Nothing is lost by replacing the others, as far down as the next one that serves.
    highest = min(reached, existing - 1)
    serving = (number for number, group in groups.items() if group.ready and not group.updated)
    lost = max((number for number in serving if lowest <= number <= highest), default=lowest - 1)
    if lost < highest:
        reached = lost + 1
    return max(wanted.partition, min(reached, released))


def _is_rolling(wanted: Wish, groups: Mapping[int, Group]) -> bool:
    released = (group for number, group in groups.items() if wanted.partition <= number < wanted.replicas)
    return any(not group.updated for group in released)


def _is_done(groups: Mapping[int, Group], number: int) -> bool:
    group = groups.get(number, _MISSING)
    return group.ready and group.updated


def _existing(groups: Mapping[int, Group]) -> int:
    return max(groups, default=-1) + 1
