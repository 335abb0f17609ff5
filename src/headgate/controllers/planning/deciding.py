"""From the best plan to what a variant should have now. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from headgate import api
from headgate.planning.assembling import Decision, Group
from headgate.planning.variants import Variant, VariantProblem

Decisions: TypeAlias = Mapping[api.ObjectKey, Decision | VariantProblem]


class Member(NamedTuple):
    """A variant with what there is of it."""

    variant: Variant
    current: int
    """Replicas that it has to have."""
    ready: int
    before: int | None = None
    """Replicas of the last plan; None: there was none."""


class Planned(NamedTuple):
    """What was planned for a variant."""

    replicas: int
    allocation: Decision | None = None
    """None: it cannot be served."""
    failure: str = ""


def planned(members: Iterable[Member], decisions: Decisions) -> dict[api.ObjectKey, Planned]:
    """Replicas of each variant with a decision.

    A replica stays until those of other variants of the model are ready that are planned. Variants of models
    that cannot be served keep the last plan.
    """
    groups: defaultdict[Group, list[Member]] = defaultdict(list)
    for member in members:
        if member.variant.key in decisions:
            groups[member.variant.group].append(member)
    return {member.variant.key: _planned(member, own, decisions) for own in groups.values() for member in own}


def _planned(member: Member, own: Sequence[Member], decisions: Decisions) -> Planned:
    found = decisions[member.variant.key]
    if isinstance(found, VariantProblem):
        held = member.current if member.before is None else member.before
        return Planned(held, None, found.message)
    replicas = found.replicas
    if replicas < member.current and any(_starts(each, decisions) for each in own if each is not member):
        replicas = member.current
    return Planned(replicas, found)


def _starts(member: Member, decisions: Decisions) -> bool:
    """Whether some of its replicas that are planned are not ready yet."""
    found = decisions[member.variant.key]
    return isinstance(found, Decision) and member.ready < found.replicas
