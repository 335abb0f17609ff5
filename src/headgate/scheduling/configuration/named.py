"""Policies by name, without a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headgate.scheduling.least_work import LeastWork
from headgate.scheduling.plugins import PrefixIndex
from headgate.scheduling.plugins.load_scorers import ActiveRequestScorer
from headgate.scheduling.plugins.pickers import RandomPicker
from headgate.scheduling.policy import Policy
from headgate.scheduling.predicted import PredictedFirstToken
from headgate.scheduling.profiles import Composed, Profile
from headgate.scheduling.round_robin import RoundRobin

_MADE: Mapping[str, Callable[[PrefixIndex], Policy]] = {
    "predicted": PredictedFirstToken,
    "least-work": lambda _: LeastWork(),
    "least-request": lambda _: Composed(Profile("least-request", scorers=[(ActiveRequestScorer(), 1.0)])),
    "round-robin": lambda _: RoundRobin(),
    "random": lambda _: Composed(Profile("random", picker=RandomPicker())),
}

NAMES = tuple(_MADE)
"""The first is the default."""


def named(name: str, prefixes: PrefixIndex) -> Policy:
    """A new policy for one pool. Raises KeyError if the name is not in NAMES."""
    return _MADE[name](prefixes)
