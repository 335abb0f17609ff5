"""Models, and the objects made from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headgate import api
from headgate.controllers.model import Children, ModelSettings, Observed, children_of

Made = Callable[..., Children]


def model_of(manifest: dict[str, Any]) -> api.Model:
    """A stored Model: the manifest with what a server adds."""
    metadata = {"namespace": "default", "uid": "00000000-1111-2222-3333-444444444444"} | manifest["metadata"]
    return msgspec.convert({**manifest, "metadata": metadata}, api.Model)


@pytest.fixture
def backend() -> Callable[..., dict[str, Any]]:
    """Makes a backend with these fields."""

    def make(name: str = "b", **fields: Any) -> dict[str, Any]:
        return {
            "name": name,
            "type": "vLLM",
            "modelURI": "hf://org/model",
            "minReplicas": 1,
            "maxReplicas": 1,
            "workers": [{"type": "server"}],
            **fields,
        }

    return make


@pytest.fixture
def made() -> Made:
    """Makes the objects of a Model with these backends."""

    def make(
        *backends: dict[str, Any], name: str = "m", observed: Observed | None = None, **spec: Any
    ) -> Children:
        manifest = {"metadata": {"name": name}, "spec": {"backends": list(backends), **spec}}
        return children_of(model_of(manifest), ModelSettings(), observed or Observed())

    return make
