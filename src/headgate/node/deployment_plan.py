"""The next number of replicas of each ReplicaSet of a Deployment. Pure: counts in, counts out.

The rules are Kubernetes': during a rolling update, at most replicas + maxSurge Pods are requested, and
available Pods are removed only while at least replicas - maxUnavailable remain. Each call makes one step; the
next one follows when the Pods have reacted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headgate.api import apps


@dataclass(frozen=True)
class SetView:
    """One ReplicaSet as the plan sees it."""

    name: str
    desired: int
    """Its spec.replicas."""
    available: int
    pods: int
    """Existing Pods, including terminating ones."""
    sized_for: int | None = None
    """The Deployment's replicas when the set was last sized; None if not recorded."""

    @property
    def surviving(self) -> int:
        """Available Pods once the set has its desired size: unavailable Pods are removed first."""
        return min(self.available, self.desired)


@dataclass(frozen=True)
class Wish:
    """The Deployment's parameters, with percentages resolved."""

    replicas: int
    max_surge: int
    max_unavailable: int
    recreate: bool = False
    paused: bool = False

    @property
    def floor(self) -> int:
        """Available Pods that must remain."""
        return max(0, self.replicas - self.max_unavailable)

    @property
    def ceiling(self) -> int:
        """Maximum number of Pods."""
        return self.replicas + self.max_surge if self.replicas else 0


Sizes = dict[str, int]
"""Replicas by name of the ReplicaSet."""


def wish(spec: apps.DeploymentSpec) -> Wish:
    """The strategy in numbers: surge rounds up, unavailable rounds down, and one of them is not 0.

    Raises ValueError.
    """
    recreate = spec.strategy.type == "Recreate"
    limits = spec.strategy.rolling_update or apps.RollingUpdateDeployment()
    field = "spec.strategy.rollingUpdate"
    surge = resolved(limits.max_surge, spec.replicas, field, up=True)
    unavailable = resolved(limits.max_unavailable, spec.replicas, field, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    if recreate:
        surge, unavailable = 0, 0
    return Wish(spec.replicas, surge, min(unavailable, spec.replicas), recreate, spec.paused)


def resolved(value: int | str, replicas: int, field: str, *, up: bool) -> int:
    """A number, or a percentage of the replicas, as a number. Raises ValueError, which names the field."""
    if isinstance(value, int):
        return max(0, value)
    number = value.removesuffix("%")
    if not number.isdecimal():
        raise ValueError(f"{field}: {value!r} is neither a number nor a percentage")
    if number == value:
        return int(value)
    share = int(number) * replicas
    return max(0, -(-share // 100) if up else share // 100)


def plan(wanted: Wish, new: SetView | None, old: Sequence[SetView]) -> Sizes:
    """The next size of each set; `new` has the Deployment's template, `old` is sorted oldest first.

    Without `new` (a paused Deployment whose template has no set yet), only sizes are adjusted.
    """
    sets = [*old, *([new] if new else [])]
    sizes = {each.name: each.desired for each in sets}
    if new is None or wanted.paused or _was_scaled(wanted, sets):
        return _scale(wanted, new, old, sizes)
    if wanted.recreate:
        return _recreate(wanted, new, old, sizes)
    return _roll(wanted, new, old, sizes)


def _was_scaled(wanted: Wish, sets: Sequence[SetView]) -> bool:
    """Whether the Deployment's replicas changed since its sets were sized, mid-rollout or not."""
    active = [each for each in sets if each.desired > 0]
    return any(each.sized_for is not None and each.sized_for != wanted.replicas for each in active)


def _scale(wanted: Wish, new: SetView | None, old: Sequence[SetView], sizes: Sizes) -> Sizes:
    """Adjust to a new number of replicas without continuing the rollout."""
    sets = [*old, *([new] if new else [])]
    active = [each for each in sets if each.desired > 0]
    if len(active) <= 1:
        only = active[0] if active else (new or (old[-1] if old else None))
        return sizes if only is None else sizes | {only.name: wanted.replicas}
    total = sum(sizes.values())
    if total > wanted.ceiling:
        return _shrink(new, old, sizes, total - wanted.ceiling)
    return _grow(active, sizes, wanted.ceiling - total)


def _shrink(new: SetView | None, old: Sequence[SetView], sizes: Sizes, surplus: int) -> Sizes:
    """Remove unavailable Pods first, and old ones before new ones."""
    ordered = [*old, *([new] if new else [])]
    for each in ordered:
        cut = min(surplus, sizes[each.name] - each.surviving)
        sizes, surplus = sizes | {each.name: sizes[each.name] - cut}, surplus - cut
    for each in ordered:
        cut = min(surplus, sizes[each.name])
        sizes, surplus = sizes | {each.name: sizes[each.name] - cut}, surplus - cut
    return sizes


def _grow(active: Sequence[SetView], sizes: Sizes, room: int) -> Sizes:
    """Distribute `room` by size (largest remainder), so that a stuck rollout does not get all of it."""
    total = sum(sizes[each.name] for each in active)
    shares = {each.name: sizes[each.name] * room / total for each in active}
    given = {name: math.floor(share) for name, share in shares.items()}
    by_remainder = sorted(shares, key=lambda name: (given[name] - shares[name], name))
    for name in by_remainder[: room - sum(given.values())]:
        given[name] += 1
    return sizes | {name: sizes[name] + more for name, more in given.items()}


def _recreate(wanted: Wish, new: SetView, old: Sequence[SetView], sizes: Sizes) -> Sizes:
    """Old Pods must be gone entirely, including terminating ones, before the first new one starts."""
    if any(each.desired or each.pods for each in old):
        return sizes | {each.name: 0 for each in old}
    return sizes | {new.name: wanted.replicas}


def _roll(wanted: Wish, new: SetView, old: Sequence[SetView], sizes: Sizes) -> Sizes:
    total = sum(sizes.values())
    room = max(0, wanted.ceiling - total)
    new_size = min(wanted.replicas, new.desired + room)
    # Scale down old Pods that never became available, as far as the new ones leave room.
    new_missing = max(0, new.desired - new.available)
    idle = max(0, total - wanted.floor - new_missing)
    spare = min(new.available, new_size) + sum(each.surviving for each in old) - wanted.floor
    sizes = sizes | {new.name: new_size}
    for each in old:
        cut = min(idle, each.desired - each.surviving)
        sizes, idle = sizes | {each.name: each.desired - cut}, idle - cut
    for each in old:
        cut = max(0, min(spare, sizes[each.name]))
        sizes, spare = sizes | {each.name: sizes[each.name] - cut}, spare - cut
    return sizes
