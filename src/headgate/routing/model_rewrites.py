"""Translates InferenceModelRewrites into the model names that the endpoints of a pool get."""

from __future__ import annotations

from collections.abc import Iterable

from headgate import api
from headgate.api import gie_v1alpha2
from headgate.routing import inference_pools
from headgate.routing.snapshot import INFERENCE_MODEL_REWRITE, Rewrites, Route, Rule, Target, name_of


def ref(rewrite: api.InferenceModelRewrite) -> api.ObjectRef:
    return api.ObjectRef(INFERENCE_MODEL_REWRITE, *rewrite.metadata.key)


def pool_of(rewrite: api.InferenceModelRewrite) -> api.ObjectRef:
    """The pool that it references, whether or not it exists."""
    return inference_pools.named(rewrite.metadata.namespace, rewrite.spec.pool_ref)


def of_pool(rewrites: Iterable[api.InferenceModelRewrite]) -> Rewrites | None:
    """The rules of all objects that reference one pool; None if there are none.

    Of the rules for one name, the first of the oldest object counts, and likewise of those for all names.
    """
    named: dict[str, Route] = {}
    others: Route | None = None
    for rewrite in sorted(rewrites, key=lambda each: each.metadata.age_order):
        for index, rule in enumerate(rewrite.spec.rules):
            if not rule.targets:
                continue
            route = _route(rewrite, index, rule)
            for match in rule.matches:
                named.setdefault(match.model.value, route)
            if not rule.matches and others is None:
                others = route
    return Rewrites(named, others) if named or others is not None else None


def _route(rewrite: api.InferenceModelRewrite, index: int, rule: gie_v1alpha2.RewriteRule) -> Route:
    key, pool = ref(rewrite), pool_of(rewrite)
    is_weighted = any(target.weight is not None for target in rule.targets)
    targets = tuple(
        Target(pool, (target.weight or 0) if is_weighted else 1, target.model_rewrite)
        for target in rule.targets
    )
    return Route(
        key=key,
        name=name_of(key),
        model=None,
        adapters=(),
        rules=(Rule(f"rules[{index}]", None, targets),),
        uid=rewrite.metadata.uid,
        created=rewrite.metadata.creation_timestamp,
    )
