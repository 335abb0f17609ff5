"""Translates a ModelRoute into a route."""

from __future__ import annotations

from collections.abc import Collection

from headgate import api
from headgate.api.kthena_networking import RateLimit
from headgate.kubeschema import regex
from headgate.routing import fallbacks, patterns
from headgate.routing.problems import Reporter
from headgate.routing.snapshot import MODEL_ROUTE, MODEL_SERVER, Route, Rule, Target, TokenLimits

MODEL_SERVER_NOT_FOUND = "ModelServerNotFound"
UNITS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "month": 30 * 86_400}


def ref(source: api.ModelRoute) -> api.ObjectRef:
    return api.ObjectRef(MODEL_ROUTE, *source.metadata.key)


def route(source: api.ModelRoute, reporter: Reporter) -> Route:
    """Translate a ModelRoute. An invalid rule is left out, and reported."""
    rules = []
    budget = regex.Budget()
    for index, rule in enumerate(source.spec.rules):
        try:
            pattern = _pattern(rule.model_match, budget)
        except patterns.InvalidPatternError as error:
            # Such a rule never matches: the reference implementations fall through to the next one.
            told = f"not a regular expression: {error}"
            reporter.report(f"spec.rules[{index}].modelMatch", "InvalidPattern", told)
            continue
        targets = tuple(_target(source, target) for target in rule.target_models)
        rules.append(Rule(rule.name or f"rules[{index}]", pattern, targets))
    return Route(
        key=reporter.ref,
        name=str(reporter.ref.key),
        model=source.spec.model_name or None,
        adapters=tuple(name for name in source.spec.lora_adapters if name),
        rules=tuple(rules),
        limits=token_limits(source.spec.rate_limit),
        fallback=fallbacks.fallback(
            source.metadata.annotations, MODEL_SERVER, source.metadata.namespace, reporter.report
        ),
        uid=source.metadata.uid,
        created=source.metadata.creation_timestamp,
    )


def check(source: api.ModelRoute, pools: Collection[api.ObjectRef], reporter: Reporter) -> None:
    """Report pools that it names and that are not in `pools`, the existing ones."""
    for index, rule in enumerate(source.spec.rules):
        for place, written in enumerate(rule.target_models):
            pool = _target(source, written).pool
            if pool not in pools:
                field = f"spec.rules[{index}].targetModels[{place}].modelServerName"
                reporter.report(field, MODEL_SERVER_NOT_FOUND, f"there is no {pool}")
    fallbacks.check(source.metadata.annotations, MODEL_SERVER, pools, reporter)


def pools_of(source: api.ModelRoute) -> set[api.ObjectRef]:
    """The pools that it names, whether or not they exist."""
    targets = {_target(source, target).pool for rule in source.spec.rules for target in rule.target_models}
    meta = source.metadata
    return targets | fallbacks.pools_of(meta.annotations, MODEL_SERVER, meta.namespace)


def _target(source: api.ModelRoute, target: api.TargetModel) -> Target:
    pool = api.ObjectRef(MODEL_SERVER, source.metadata.namespace, target.model_server_name)
    return Target(pool, target.weight)


def _pattern(condition: api.ModelMatch | None, budget: regex.Budget) -> patterns.RequestPattern | None:
    if condition is None:
        return None
    pattern = patterns.RequestPattern(
        headers=tuple(
            (name.lower().encode(), patterns.compile_string(value, budget))
            for name, value in condition.headers.items()
        ),
        path=patterns.compile_string(condition.uri, budget) if condition.uri else None,
        model=condition.body.model if condition.body else None,
    )
    return pattern if pattern != patterns.RequestPattern() else None


def token_limits(written: RateLimit | None) -> TokenLimits | None:
    """The token limits of a route; None if it has none."""
    if written is None:
        return None
    if written.input_tokens_per_unit is None and written.output_tokens_per_unit is None:
        return None
    shared = written.global_.redis if written.global_ is not None else None
    return TokenLimits(
        input=written.input_tokens_per_unit,
        output=written.output_tokens_per_unit,
        unit=written.unit,
        unit_s=UNITS_S[written.unit],
        redis_address=shared.address if shared is not None else None,
    )
