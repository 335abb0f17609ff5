"""Objects as an API server has them."""

import itertools
from collections.abc import Callable

import msgspec
import pytest

from headgate import api

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
