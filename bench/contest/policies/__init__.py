"""The competitors, by their names in the table."""

from __future__ import annotations

from collections.abc import Callable

from contest.policies import aibrix, dualmap, dynamo, kthena, llm_d, oracle, preble, simple, smg
from contest.policies.oracle import Soonest as Oracle
from contest.policies.published import Page, Published
from contest.setup import Setup
from headgate import scheduling
from headgate.fleet.prefix import PrefixIndex


def _headgate(setup: Setup) -> scheduling.Policy:
    """As in the gateway: cache sizes are reported by the engines, contents assumed, speeds learned."""
    return scheduling.PredictedFirstToken(PrefixIndex(default_limit=setup.cache_blocks))


def _least_work(setup: Setup) -> scheduling.Policy:
    return scheduling.LeastWork()


OURS = "headgate"
GATEWAYS: dict[str, Callable[[Setup], scheduling.Policy]] = {
    OURS: _headgate,
    "headgate LeastWork": _least_work,
    "llm-d affinity + token load": llm_d.Affinity,
    "llm-d 3:2:2 precise": llm_d.Weighted,
    "Dynamo lmetric": dynamo.LMetric,
    "Dynamo linear": dynamo.Linear,
    "DualMap": dualmap.DualMap,
    "Preble E2": preble.E2,
    "SMG least_load": smg.LeastLoad,
    "SMG cache_aware": smg.CacheAware,
    "Kthena default": kthena.DefaultPlugins,
    "AIBrix prefix-cache": aibrix.PrefixCache,
    "least work in seconds": simple.LeastWorkSeconds,
    "least request": simple.LeastRequest,
    "round robin": simple.RoundRobin,
    "random": simple.Random,
}
"""They only know what a gateway can know."""

ORACLES: dict[str, type[Oracle]] = {
    "oracle": oracle.Soonest,
    "oracle sticky 0.5 s": oracle.Sticky,
    "oracle at our price": oracle.Priced,
}
"""They know everything about first-order replicas; no policy knows that about stepped engines."""

Make = Callable[[Setup], scheduling.Policy] | type[Oracle]
POLICIES: dict[str, Make] = {**GATEWAYS, **ORACLES}

__all__ = ["GATEWAYS", "ORACLES", "OURS", "POLICIES", "Make", "Oracle", "Page", "Published", "Setup"]
