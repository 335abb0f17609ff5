"""From InferenceObjectives to the priorities that the requests of a pool may have."""

from __future__ import annotations

from collections.abc import Collection

from headgate import api
from headgate.routing import inference_models, inference_pools
from headgate.routing.problems import Reporter
from headgate.routing.snapshot import INFERENCE_OBJECTIVE

HEADERS = (b"x-llm-d-inference-objective", b"x-gateway-inference-objective")
"""By which a request names the objective that it has; the first that it has counts."""


def ref(objective: api.InferenceObjective) -> api.ObjectRef:
    return api.ObjectRef(INFERENCE_OBJECTIVE, *objective.metadata.key)


def pool_of(objective: api.InferenceObjective) -> api.ObjectRef:
    """The pool that it names, whether or not that exists."""
    return inference_pools.named(objective.metadata.namespace, objective.spec.pool_ref)


def check(objective: api.InferenceObjective, pools: Collection[api.ObjectRef], reporter: Reporter) -> None:
    """Reports a pool that is not among `pools`, which exist."""
    inference_models.check_pool(pool_of(objective), pools, reporter)


def priority(objective: api.InferenceObjective) -> int:
    return objective.spec.priority or 0
