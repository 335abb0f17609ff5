"""Decides which pool a request goes to.

`translate` turns the objects of every dialect into one immutable Snapshot of routes and pools, once per
change. `match` finds the route and rule for a request's model, path and headers in that snapshot, `Splits`
the target by weight, and `explain` says why every other rule is skipped. Nothing here depends on an object's
dialect, except for its name.
"""

from headgate.routing.endpoints import is_page_path, is_prefix
from headgate.routing.explain import Reading, RouteReading, RuleReading, conditions, explain
from headgate.routing.fallbacks import not_listed, unlisted
from headgate.routing.inference_models import HEADERS as OBJECTIVE_HEADERS
from headgate.routing.inference_models import MODEL_NAME_IN_USE, REF_NOT_FOUND
from headgate.routing.inference_pools import InferencePool
from headgate.routing.inference_pools import models as models_of
from headgate.routing.inference_pools import named as named_pool
from headgate.routing.match import Taker, is_named, match, takers
from headgate.routing.model_routes import MODEL_SERVER_NOT_FOUND
from headgate.routing.patterns import InvalidPatternError, TooCostlyError
from headgate.routing.phases import DECODES, PREFILLS
from headgate.routing.pool_inputs import PoolObject, ref_of, selector_of
from headgate.routing.problems import Problem
from headgate.routing.providers import Provider
from headgate.routing.reduced_pods import reduced as reduced_pod
from headgate.routing.snapshot import (
    EMPTY,
    INFERENCE_MODEL,
    INFERENCE_MODEL_REWRITE,
    INFERENCE_OBJECTIVE,
    INFERENCE_POOL,
    INFERENCE_POOL_V1ALPHA1,
    MODEL_ROUTE,
    MODEL_SERVER,
    PROVIDER,
    Connector,
    Difference,
    Endpoint,
    Fallback,
    KvEvents,
    Match,
    MetricsPage,
    Next,
    Picker,
    Pool,
    PrefillDecode,
    Rewrites,
    Role,
    Route,
    Rule,
    Snapshot,
    Start,
    Step,
    Target,
    TokenLimits,
    name_of,
)
from headgate.routing.split import Splits, WeightedSplit
from headgate.routing.tls import Tls, authorities_of
from headgate.routing.translate import UNRESOLVED, InferenceObjects, Translator, translate

__all__ = [
    "DECODES",
    "EMPTY",
    "INFERENCE_MODEL",
    "INFERENCE_MODEL_REWRITE",
    "INFERENCE_OBJECTIVE",
    "INFERENCE_POOL",
    "INFERENCE_POOL_V1ALPHA1",
    "MODEL_NAME_IN_USE",
    "MODEL_ROUTE",
    "MODEL_SERVER",
    "MODEL_SERVER_NOT_FOUND",
    "OBJECTIVE_HEADERS",
    "PREFILLS",
    "PROVIDER",
    "REF_NOT_FOUND",
    "UNRESOLVED",
    "Connector",
    "Difference",
    "Endpoint",
    "Fallback",
    "InferenceObjects",
    "InferencePool",
    "InvalidPatternError",
    "KvEvents",
    "Match",
    "MetricsPage",
    "Next",
    "Picker",
    "Pool",
    "PoolObject",
    "PrefillDecode",
    "Problem",
    "Provider",
    "Reading",
    "Rewrites",
    "Role",
    "Route",
    "RouteReading",
    "Rule",
    "RuleReading",
    "Snapshot",
    "Splits",
    "Start",
    "Step",
    "Taker",
    "Target",
    "Tls",
    "TokenLimits",
    "TooCostlyError",
    "Translator",
    "WeightedSplit",
    "authorities_of",
    "conditions",
    "explain",
    "is_named",
    "is_page_path",
    "is_prefix",
    "match",
    "models_of",
    "name_of",
    "named_pool",
    "not_listed",
    "reduced_pod",
    "ref_of",
    "selector_of",
    "takers",
    "translate",
    "unlisted",
]
