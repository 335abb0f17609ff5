"""Translates InferenceModels into routes, and InferenceObjectives into priorities."""

from __future__ import annotations

from collections.abc import Collection

from headgate import api
from headgate.routing import fallbacks, inference_pools
from headgate.routing.problems import Reporter
from headgate.routing.snapshot import (
    INFERENCE_MODEL,
    INFERENCE_OBJECTIVE,
    INFERENCE_POOL,
    INFERENCE_POOL_V1ALPHA1,
    Route,
    Rule,
    Target,
    name_of,
)

# Routes of InferenceModels: the oldest for a name in a pool serves, the others are inactive.
MODEL_NAME_IN_USE = "ModelNameInUse"
REF_NOT_FOUND = "RefNotFound"

PRIORITIES = {"Critical": 1, "Default": 0, "Sheddable": -1}
"""Priorities by the criticality of the model."""

_RULE = "targetModels"
"""Name of the only rule."""


def ref(model: api.InferenceModel) -> api.ObjectRef:
    return api.ObjectRef(INFERENCE_MODEL, *model.metadata.key)


def pool_of(model: api.InferenceModel) -> api.ObjectRef:
    """The pool that it references, whether or not it exists."""
    return inference_pools.named(model.metadata.namespace, model.spec.pool_ref)


def precedence(model: api.InferenceModel) -> tuple[bool, str, str, str]:
    """Sort key of the models for one name in one pool: the first is served.

    One that is being deleted gives its name up before it is gone.
    """
    return (model.metadata.deletion_timestamp is not None, *model.metadata.age_order)


def check(
    model: api.InferenceModel, holder: api.ObjectRef, pools: Collection[api.ObjectRef], reporter: Reporter
) -> None:
    """Report a pool that is not in `pools`, the existing ones, and a name that `holder` has."""
    check_pool(pool_of(model), pools, reporter)
    fallbacks.check(model.metadata.annotations, pool_of(model).kind, pools, reporter)
    if model.spec.model_name and holder != reporter.ref:
        told = (
            f'{holder} is older and has "{model.spec.model_name}" in the same pool: it is served until it is '
            "deleted"
        )
        reporter.report("spec.modelName", MODEL_NAME_IN_USE, told)


def check_pool(pool: api.ObjectRef, pools: Collection[api.ObjectRef], reporter: Reporter) -> None:
    """Report a reference to a pool that does not exist."""
    if pool in pools:
        return
    told = f"there is no {pool}"
    for kind, group in ((INFERENCE_POOL, "k8s"), (INFERENCE_POOL_V1ALPHA1, "x-k8s")):
        if pool._replace(kind=kind) in pools:
            told += f"; an InferencePool of this name is in group inference.networking.{group}.io"
            told += ": set spec.poolRef.group"
    reporter.report("spec.poolRef", REF_NOT_FOUND, told)


def pools_of(model: api.InferenceModel) -> set[api.ObjectRef]:
    """The pools that it names, whether or not they exist."""
    meta, pool = model.metadata, pool_of(model)
    return {pool} | fallbacks.pools_of(meta.annotations, pool.kind, meta.namespace)


def route(model: api.InferenceModel, reporter: Reporter) -> Route:
    """The route of a model that is served."""
    spec, pool, key = model.spec, pool_of(model), ref(model)
    targets = tuple(Target(pool, each.weight, each.name or spec.model_name) for each in spec.target_models)
    return Route(
        key=key,
        name=name_of(key),
        model=spec.model_name,
        adapters=(),
        rules=(Rule(_RULE, None, targets or (Target(pool, 1, spec.model_name),)),),
        priority=PRIORITIES[spec.criticality],
        is_reserved=bool(targets) and not any(target.weight for target in targets),
        fallback=fallbacks.fallback(
            model.metadata.annotations, pool.kind, model.metadata.namespace, reporter.report
        ),
        uid=model.metadata.uid,
        created=model.metadata.creation_timestamp,
    )


HEADERS = (b"x-llm-d-inference-objective", b"x-gateway-inference-objective")
"""The headers that name a request's objective; the first one present counts."""


def objective_ref(objective: api.InferenceObjective) -> api.ObjectRef:
    return api.ObjectRef(INFERENCE_OBJECTIVE, *objective.metadata.key)


def pool_of_objective(objective: api.InferenceObjective) -> api.ObjectRef:
    """The pool that it references, whether or not it exists."""
    return inference_pools.named(objective.metadata.namespace, objective.spec.pool_ref)


def check_objective(
    objective: api.InferenceObjective, pools: Collection[api.ObjectRef], reporter: Reporter
) -> None:
    """Report a pool that is not in `pools`, the existing ones."""
    check_pool(pool_of_objective(objective), pools, reporter)


def priority_of(objective: api.InferenceObjective) -> int:
    return objective.spec.priority or 0
