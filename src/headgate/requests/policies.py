"""The policy that picks the endpoints of each pool, by the settings or the pool's annotation."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from headgate import routing, scheduling
from headgate.api import marks
from headgate.fleet.prefix import PrefixIndex
from headgate.requests.rules import Rules
from headgate.scheduling import configuration
from headgate.scheduling.configuration import Plan

log = logging.getLogger(__name__)


class Policies:
    """Makes the policies of pools. They share one prefix index."""

    def __init__(self, rules: Rules, prefixes: PrefixIndex) -> None:
        self._name = rules.policy
        self._prefixes = prefixes
        self._plan = _plan(rules)
        self.decoding: scheduling.Policy = scheduling.WithAdapters(scheduling.LeastDecoding(prefixes))
        """Picks decoding endpoints, unless the policy of the pool does."""

    def of(self, pool: routing.Pool) -> scheduling.Policy:
        """A new policy for a pool: the profile or policy in its annotation, else the default.

        Requests for adapters go to the adapters' homes, unless the policy handles adapters itself. Of the
        policies, only the default uses weights.
        """
        chosen = self._chosen(pool)
        if pool.weights and isinstance(chosen, scheduling.PredictedFirstToken):
            chosen = scheduling.Weighted(chosen)
        return chosen if chosen.judges_adapters else scheduling.WithAdapters(chosen)

    def _chosen(self, pool: routing.Pool) -> scheduling.Policy:
        wanted = pool.scheduling_profile
        if self._plan is not None and (not wanted or wanted in self._plan.profiles):
            return self._plan.policy(self._prefixes, wanted or None)
        if wanted in configuration.NAMES:
            return configuration.named(wanted, self._prefixes)
        if wanted:
            log.warning(
                "%s: the annotation %s has no effect: %s is neither a policy nor a profile of the "
                "scheduler's configuration",
                pool.key,
                marks.SCHEDULING_PROFILE,
                wanted,
            )
        if self._plan is not None:
            return self._plan.policy(self._prefixes)
        return configuration.named(self._name, self._prefixes)

    def shown(self, pools: Iterable[tuple[routing.Pool, scheduling.Policy]]) -> dict[str, Any]:
        """For the admin page: policies in effect, and pools that name unknown ones."""
        profiles = (*configuration.NAMES, *(self._plan.profiles if self._plan is not None else ()))
        return {
            "default": self._name if self._plan is None else "configuration",
            "configuration": self._plan.shown() if self._plan is not None else None,
            "pools": {
                pool.name: {"policy": policy.name}
                | ({"unknown": asked} if (asked := pool.scheduling_profile) and asked not in profiles else {})
                for pool, policy in pools
            },
        }


def _plan(rules: Rules) -> Plan | None:
    """The plan of the configuration file. It was validated when it was read, so errors here mean that code
    differs."""
    if rules.plan is None:
        return None
    reading = configuration.read(rules.plan, allow_alpha=rules.allow_experimental_plugins)
    for problem in reading.problems:
        if problem.severity == "error":
            log.error("the scheduler's configuration is not used: %s: %s", problem.path, problem.message)
    return reading.plan
