"""Models, and the objects made from them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.controllers.model import Children, ModelSettings, Observed, children_of

# Tests of API servers use it as well.
sys.path.insert(0, str(Path(__file__).parent / "driver"))

import goldens

Made = Callable[..., Children]


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
        *backends: dict[str, Any],
        name: str = "m",
        called: str | None = None,
        observed: Observed | None = None,
        **spec: Any,
    ) -> Children:
        own = {} if called is None else {"name": called}
        manifest = {"metadata": {"name": name}, "spec": {"backends": list(backends), **own, **spec}}
        return children_of(goldens.stored(manifest), ModelSettings(), observed or Observed())

    return make
