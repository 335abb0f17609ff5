"""From InferenceObjectives to the priorities that the requests of a pool may have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from headgate import api
from headgate.routing import inference_models, inference_pools
from headgate.routing.problems import Problem, Reporter
from headgate.routing.snapshot import INFERENCE_OBJECTIVE

HEADERS = (b"x-llm-d-inference-objective", b"x-gateway-inference-objective")
"""By which a request names the objective that it has; the first that it has counts."""


def ref(objective: api.InferenceObjective) -> api.ObjectRef:
    return api.ObjectRef(INFERENCE_OBJECTIVE, *objective.metadata.key)


def pool_of(objective: api.InferenceObjective) -> api.ObjectRef:
    """The pool that it names, whether or not that exists."""
    return inference_pools.named(objective.metadata.namespace, objective.spec.pool_ref)


def priorities(
    objectives: Iterable[api.InferenceObjective], pools: Collection[api.ObjectRef], problems: list[Problem]
) -> Mapping[api.ObjectRef, dict[str, int]]:
    """By pool and name; `pools` are those that exist. In a pool, names are of one namespace and so unique."""
    found: dict[api.ObjectRef, dict[str, int]] = defaultdict(dict)
    for objective in sorted(objectives, key=lambda each: each.metadata.key):
        pool = pool_of(objective)
        inference_models.check_pool(pool, pools, Reporter(ref(objective), problems))
        found[pool][objective.metadata.name] = objective.spec.priority or 0
    return found
