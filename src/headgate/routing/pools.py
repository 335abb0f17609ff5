"""What objects of every dialect that are pools have in common."""

from __future__ import annotations

from typing import TypeAlias

from headgate import api
from headgate.routing import inference_pools, model_servers
from headgate.routing.endpoints import Selector
from headgate.routing.inference_pools import InferencePool

PoolObject: TypeAlias = api.ModelServer | InferencePool


def ref_of(pool: PoolObject) -> api.ObjectRef:
    """How routing names the object."""
    return model_servers.ref(pool) if isinstance(pool, api.ModelServer) else inference_pools.ref(pool)


def selector_of(pool: PoolObject) -> Selector:
    """Its namespace, and the labels that its Pods have; without any, it has none."""
    if isinstance(pool, api.ModelServer):
        return model_servers.selector(pool)
    return inference_pools.selector(pool)
