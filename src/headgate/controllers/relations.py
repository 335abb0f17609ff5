"""Relations between objects with statuses: names, references and selectors.

In one place for all kinds, so that the index need not distinguish them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from headgate import api, routing
from headgate.api import gie_v1, gie_v1alpha1

InferencePool: TypeAlias = routing.InferencePool
Pool: TypeAlias = api.ModelServer | InferencePool
Observed: TypeAlias = (
    api.ModelRoute | Pool | api.InferenceModel | api.InferenceObjective | api.InferenceModelRewrite
)

KINDS: dict[str, type[Observed]] = {
    routing.MODEL_ROUTE: api.ModelRoute,
    routing.MODEL_SERVER: api.ModelServer,
    routing.INFERENCE_POOL: gie_v1.InferencePool,
    routing.INFERENCE_POOL_V1ALPHA1: gie_v1alpha1.InferencePool,
    routing.INFERENCE_MODEL: api.InferenceModel,
    routing.INFERENCE_OBJECTIVE: api.InferenceObjective,
    routing.INFERENCE_MODEL_REWRITE: api.InferenceModelRewrite,
}
"""By the names that routing uses."""
_NAMES = {kind: name for name, kind in KINDS.items()}
POOLS = (gie_v1.InferencePool, gie_v1alpha1.InferencePool)


class Subject(NamedTuple):
    """An object whose status may have to be updated."""

    kind: type[Observed]
    key: api.ObjectKey

    @property
    def ref(self) -> api.ObjectRef:
        return api.ObjectRef(_NAMES[self.kind], *self.key)

    def __str__(self) -> str:
        return str(self.ref)


def subject(obj: Observed) -> Subject:
    return Subject(type(obj), obj.metadata.key)


def names(obj: Observed) -> set[str]:
    """The models and adapters that it serves; for a pool, those in its annotation."""
    if isinstance(obj, api.ModelRoute):
        return {name for name in (obj.spec.model_name, *obj.spec.lora_adapters) if name}
    if isinstance(obj, api.InferenceModel):
        return {obj.spec.model_name} if obj.spec.model_name else set()
    return set(routing.models_of(obj)) if isinstance(obj, POOLS) else set()


Age: TypeAlias = tuple[bool, str, str, str]


def age(obj: Observed) -> Age:
    """Precedence among objects of a kind: not being deleted, then older."""
    return (obj.metadata.deletion_timestamp is not None, *obj.metadata.age_order)


def roles(obj: Observed, name: str) -> Iterator[tuple[object, ...]]:
    """Its roles for a name. Among objects with the same role, age alone decides."""
    kind = type(obj)
    if isinstance(obj, api.ModelRoute):
        if obj.spec.model_name == name:
            yield kind, "model"
        if name in obj.spec.lora_adapters:
            yield kind, "adapter"
    elif isinstance(obj, api.InferenceModel):
        yield (kind,)
        yield kind, frozenset(pools(obj))
    else:
        yield (kind,)


def rivalry(obj: Observed | None) -> object:
    """The part of an object that affects others with its names; of a ModelRoute, whether its rules lead
    anywhere.
    """
    if not isinstance(obj, api.ModelRoute):
        return obj
    spec = obj.spec
    asked = [(rule.name, rule.model_match, any(_weights(rule))) for rule in spec.rules]
    return obj.metadata.uid, age(obj), spec.model_name, spec.lora_adapters, asked


def _weights(rule: api.Rule) -> list[int]:
    return [target.weight for target in rule.target_models]


def pools(obj: Observed) -> set[Subject]:
    """The pools that it names, existing or not; references to other kinds are ignored."""
    if isinstance(obj, api.ModelRoute):
        namespace = obj.metadata.namespace
        return {
            Subject(api.ModelServer, api.ObjectKey(namespace, target.model_server_name))
            for rule in obj.spec.rules
            for target in rule.target_models
        }
    if not isinstance(obj, api.InferenceModel | api.InferenceObjective | api.InferenceModelRewrite):
        return set()
    named = routing.named_pool(obj.metadata.namespace, obj.spec.pool_ref)
    kind = KINDS.get(named.kind)
    return {Subject(kind, named.key)} if kind is not None else set()


def selector(obj: Observed) -> Mapping[str, str]:
    """The labels of its Pods; empty if it selects none."""
    return routing.selector_of(obj)[1] if isinstance(obj, Pool) else {}


def picker(obj: Observed) -> api.ObjectKey | None:
    """The Service that a pool names as its picker."""
    reference = obj.spec.endpoint_picker_ref if isinstance(obj, gie_v1.InferencePool) else None
    if reference is None or reference.group or reference.kind != "Service":
        return None
    return api.ObjectKey(obj.metadata.namespace, reference.name)


def authorities(obj: Observed) -> api.ObjectKey | None:
    """The Secret that verifies the endpoints of a pool."""
    return routing.authorities_of(obj) if isinstance(obj, Pool) else None


def decisive(obj: Observed) -> tuple[object, ...]:
    """The part of an object that affects its status or that of others."""
    metadata = obj.metadata
    return metadata.uid, metadata.deletion_timestamp, metadata.annotations, obj.spec


def serving(obj: Observed) -> tuple[object, ...]:
    """The part of a pool that determines its endpoints."""
    port = obj.spec.workload_port if isinstance(obj, api.ModelServer) else None
    return selector(obj), port, obj.metadata.annotations
