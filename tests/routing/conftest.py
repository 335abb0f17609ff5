"""Objects as an API server has them."""

import itertools
from collections.abc import Callable
from types import SimpleNamespace

import msgspec
import pytest

from headgate import api, routing
from headgate.api import gie_v1, gie_v1alpha1

_second = itertools.count()


def _metadata(name: str, **more: object) -> dict[str, object]:
    minute, second = divmod(next(_second) % 3600, 60)
    created = f"2026-01-01T00:{minute:02}:{second:02}Z"
    return {"name": name, "namespace": "default", "creationTimestamp": created, **more}


def make_route(name: str, model: str | None = "m", rules: list | None = None, **spec: object):
    """A ModelRoute; those made later are younger."""
    spec.setdefault(
        "rules", rules if rules is not None else [{"targetModels": [{"modelServerName": "pool"}]}]
    )
    metadata = _metadata(name, **spec.pop("metadata", {}))
    if model is not None:
        spec["modelName"] = model
    return msgspec.convert({"metadata": metadata, "spec": spec}, api.ModelRoute)


def make_server(name: str = "pool", labels: dict | None = None, **spec: object):
    """A ModelServer that selects Pods of the label app=NAME."""
    spec = {
        "inferenceEngine": "vLLM",
        "workloadSelector": {"matchLabels": {"app": name} if labels is None else labels},
        **spec,
    }
    return msgspec.convert({"metadata": _metadata(name), "spec": spec}, api.ModelServer)


def make_pod(name: str, ip: str = "127.0.0.2", app: str = "pool", *, ready: bool = True, **more: object):
    """A Pod, ready unless told otherwise."""
    status = {"podIP": ip, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    metadata = _metadata(name, **{"labels": {"app": app, "zone": "a"}, **more.pop("metadata", {})})
    return msgspec.convert({"metadata": metadata, "status": status, **more}, api.Pod)


def make_inference_pool(name: str = "pool", *ports: int, notes: dict | None = None, **spec: object):
    """An InferencePool of v1 that selects Pods of the label app=NAME, on port 8000 unless told otherwise."""
    spec = {
        "selector": {"matchLabels": {"app": name}},
        "targetPorts": [{"number": port} for port in ports or (8000,)],
        **spec,
    }
    metadata = _metadata(name, annotations=notes or {})
    return msgspec.convert({"metadata": metadata, "spec": spec}, gie_v1.InferencePool)


def make_old_pool(name: str = "pool", port: int = 8000, labels: dict | None = None):
    """An InferencePool of v1alpha1."""
    spec = {"selector": {"app": name} if labels is None else labels, "targetPortNumber": port}
    return msgspec.convert({"metadata": _metadata(name), "spec": spec}, gie_v1alpha1.InferencePool)


def make_model(
    name: str, model: str = "m", pool: str = "pool", *, metadata: dict | None = None, **spec: object
):
    """An InferenceModel of a v1 pool; those made later are younger. Keyword arguments are fields of its spec,
    but for `targets`, which are weights by name."""
    targets = [{"name": each, "weight": weight} for each, weight in spec.pop("targets", {}).items()]
    reference = {"name": pool, "group": gie_v1.GROUP, **spec.pop("poolRef", {})}
    spec = {"modelName": model, "poolRef": reference, "targetModels": targets, **spec}
    return msgspec.convert({"metadata": _metadata(name, **metadata or {}), "spec": spec}, api.InferenceModel)


def make_objective(name: str, priority: int | None = None, pool: str = "pool", **more: object):
    """An InferenceObjective of a v1 pool; keyword arguments are fields of its poolRef and metadata."""
    spec = {"poolRef": {"name": pool, **more.pop("poolRef", {})}}
    if priority is not None:
        spec["priority"] = priority
    return msgspec.convert({"metadata": _metadata(name, **more), "spec": spec}, api.InferenceObjective)


def translated(*objects: object) -> routing.Snapshot:
    """Objects of any kinds."""

    def of(*kinds: type) -> list:
        return [obj for obj in objects if isinstance(obj, kinds)]

    inference = routing.InferenceObjects(
        pools=of(gie_v1.InferencePool, gie_v1alpha1.InferencePool),
        models=of(api.InferenceModel),
        objectives=of(api.InferenceObjective),
        rewrites=of(api.InferenceModelRewrite),
    )
    return routing.translate(of(api.ModelRoute), of(api.ModelServer), of(api.Pod), (), inference)


@pytest.fixture(scope="session")
def kit() -> SimpleNamespace:
    """Objects of the Gateway API Inference Extension, and what becomes of them."""
    return SimpleNamespace(
        pool=make_inference_pool,
        old_pool=make_old_pool,
        model=make_model,
        objective=make_objective,
        pod=make_pod,
        route=make_route,
        server=make_server,
        translated=translated,
        ref=lambda name="pool", kind="InferencePool": api.ObjectRef(kind, "default", name),
    )


@pytest.fixture(scope="session")
def route() -> Callable[..., api.ModelRoute]:
    """Makes a ModelRoute."""
    return make_route


@pytest.fixture(scope="session")
def server() -> Callable[..., api.ModelServer]:
    """Makes a ModelServer."""
    return make_server


@pytest.fixture(scope="session")
def pod() -> Callable[..., api.Pod]:
    """Makes a Pod."""
    return make_pod
