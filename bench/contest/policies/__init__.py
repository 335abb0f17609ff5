"""The competitors, by the names of the table."""

from __future__ import annotations

from collections.abc import Callable

from contest.policies import aibrix, dualmap, dynamo, llm_d, oracle, simple, smg
from contest.policies.published import Published, View
from headgate import scheduling
from headgate.fleet.prefix import PrefixIndex


def _headgate(view: View) -> scheduling.Policy:
    """As the gateway has it: the size of the caches is known from the engines, what is in them is believed,
    how fast they are is learned."""
    return scheduling.PredictedFirstToken(PrefixIndex(default_limit=view.fleet.cache_blocks))


def _least_work(view: View) -> scheduling.Policy:
    return scheduling.LeastWork()


POLICIES: dict[str, Callable[[View], scheduling.Policy]] = {
    "headgate": _headgate,
    "headgate LeastWork": _least_work,
    "Dynamo lmetric": dynamo.LMetric,
    "llm-d 3:2:2 precise": llm_d.Weighted,
    "DualMap": dualmap.DualMap,
    "Dynamo linear": dynamo.Linear,
    "SMG cache_aware": smg.CacheAware,
    "AIBrix prefix-cache": aibrix.PrefixCache,
    "least work in seconds": simple.LeastWorkSeconds,
    "least request": simple.LeastRequest,
    "round robin": simple.RoundRobin,
    "random": simple.Random,
    "oracle": oracle.Soonest,
    "oracle sticky 0.5 s": oracle.Sticky,
    "oracle at our price": oracle.Priced,
}

ORACLES = frozenset(name for name in POLICIES if name.startswith("oracle"))
"""They know all of first-order replicas; of engines that step nobody does."""

__all__ = ["ORACLES", "POLICIES", "Published", "View"]
