"""The common interface of pool objects of every dialect, and the other objects that pools depend on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from typing import TypeAlias, TypeVar

from headgate import api
from headgate.routing import (
    endpoints,
    inference_models,
    inference_pools,
    model_rewrites,
    model_servers,
    tls,
)
from headgate.routing.endpoints import Selector
from headgate.routing.inference_pools import InferencePool
from headgate.routing.selections import Selections, discard
from headgate.routing.snapshot import Rewrites

Value = TypeVar("Value")

PoolObject: TypeAlias = api.ModelServer | InferencePool


def ref_of(pool: PoolObject) -> api.ObjectRef:
    """How routing refers to the object."""
    return model_servers.ref(pool) if isinstance(pool, api.ModelServer) else inference_pools.ref(pool)


def selector_of(pool: PoolObject) -> Selector:
    """Its namespace, and the labels that its Pods must have; without labels, it selects none."""
    if isinstance(pool, api.ModelServer):
        return model_servers.selector(pool)
    return inference_pools.selector(pool)


# The other inputs of pools, Pods, Secrets, objectives and rewrites, indexed by the pools that they affect.
class PoolInputs:
    """Takes changes in any order; each returns the pools to translate again."""

    def __init__(self) -> None:
        self._pods: Selections[api.ObjectRef] = Selections(endpoints.facts)
        self._verified_by: defaultdict[api.ObjectKey, set[api.ObjectRef]] = defaultdict(set)
        self._secret_of: dict[api.ObjectRef, api.ObjectKey] = {}
        self._priorities: defaultdict[api.ObjectRef, dict[str, int]] = defaultdict(dict)
        self._rewrites: defaultdict[api.ObjectRef, dict[str, api.InferenceModelRewrite]] = defaultdict(dict)
        self.secrets: dict[api.ObjectKey, api.Secret] = {}
        """The Secrets for TLS verification that exist and were given."""

    def put_pool(self, key: api.ObjectRef, pool: PoolObject | None) -> None:
        """Update what a pool selects and references; None if it is gone."""
        namespace, labels = selector_of(pool) if pool is not None else ("", {})
        self._pods.select(key, namespace, labels)
        before = self._secret_of.pop(key, None)
        named = tls.authorities_of(pool) if pool is not None else None
        if named is not None:
            self._secret_of[key] = named
            self._verified_by[named].add(key)
        if before is not None and before != named:
            discard(self._verified_by, before, key)

    def put_pod(self, key: api.ObjectKey, pod: api.Pod | None) -> set[api.ObjectRef]:
        """A Pod that is not ready counts as gone."""
        return self._pods.put(key, pod if pod is not None and endpoints.is_ready(pod) else None)

    def put_secret(self, key: api.ObjectKey, secret: api.Secret | None) -> set[api.ObjectRef]:
        if secret is None:
            self.secrets.pop(key, None)
        else:
            self.secrets[key] = secret
        return set(self._verified_by.get(key, ()))

    def put_objective(
        self, old: api.InferenceObjective | None, new: api.InferenceObjective | None
    ) -> set[api.ObjectRef]:
        touched = set()
        if old is not None:
            pool = inference_models.pool_of_objective(old)
            _discard_named(self._priorities, pool, old.metadata.name)
            touched.add(pool)
        if new is not None:
            pool = inference_models.pool_of_objective(new)
            self._priorities[pool][new.metadata.name] = inference_models.priority_of(new)
            touched.add(pool)
        return touched

    def put_rewrite(
        self, old: api.InferenceModelRewrite | None, new: api.InferenceModelRewrite | None
    ) -> set[api.ObjectRef]:
        touched = set()
        if old is not None:
            pool = model_rewrites.pool_of(old)
            _discard_named(self._rewrites, pool, old.metadata.name)
            touched.add(pool)
        if new is not None:
            pool = model_rewrites.pool_of(new)
            self._rewrites[pool][new.metadata.name] = new
            touched.add(pool)
        return touched

    def pods(self, pool: api.ObjectRef) -> list[api.Pod]:
        """The ready Pods that a pool selects, by name."""
        return sorted(self._pods.pods(pool), key=lambda pod: pod.metadata.name)

    def priorities(self, pool: api.ObjectRef) -> Mapping[str, int]:
        """Current priorities of a pool's objectives, by name."""
        return dict(self._priorities.get(pool, {}))

    def rewrites(self, pool: api.ObjectRef) -> Rewrites | None:
        """What gives the models of a pool other names."""
        return model_rewrites.of_pool(self._rewrites.get(pool, {}).values())

    @property
    def named_secrets(self) -> Set[api.ObjectKey]:
        """All Secrets that some pool references, whether or not they exist."""
        return self._verified_by.keys()


def _discard_named(by_pool: dict[api.ObjectRef, dict[str, Value]], pool: api.ObjectRef, name: str) -> None:
    named = by_pool.get(pool, {})
    named.pop(name, None)
    if not named:
        by_pool.pop(pool, None)
