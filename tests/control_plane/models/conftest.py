"""Models on a real control plane: a process node runs their Pods, with simulated engines in place of real
ones, and a hub on loopback has the weights."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

# What happens to Models while processes are killed is the same on a laptop.
sys.path.insert(0, str(Path(__file__).parents[2] / "whole" / "models" / "driver"))

IMAGES = {
    "images": [
        {
            "image": pattern,
            "command": [sys.executable, "-m", "headgate", "simulate", "as", "--profile", "fast"],
            "wrap": True,
        }
        for pattern in ("vllm/*", "lmsysorg/*")
    ]
}


def _downloads() -> Any:
    """The hub of the tests of downloads."""
    file = Path(__file__).parents[2] / "downloads" / "conftest.py"
    spec = importlib.util.spec_from_file_location("hub_of_downloads", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["hub_of_downloads"] = module
    spec.loader.exec_module(module)
    return module


hubs = _downloads()
hub = hubs.hub
"""A hub without repositories."""


@dataclass
class Models:
    """Models in the namespace of a test."""

    cluster: Any
    namespace: str
    hub_url: str
    eventually: Callable[..., Any]

    def backend(self, name: str = "b", **fields: Any) -> dict[str, Any]:
        """A backend of one simulated vLLM."""
        return {
            "name": name,
            "type": "vLLM",
            "modelURI": "hf://org/model",
            "minReplicas": 1,
            "maxReplicas": 1,
            "workers": [{"type": "server"}],
            **fields,
            "env": [{"name": "HF_ENDPOINT", "value": self.hub_url}, *fields.get("env", [])],
        }

    def put(self, *backends: dict[str, Any], name: str = "m", **spec: Any) -> None:
        """Create the Model, or replace its spec."""
        manifest = {
            "apiVersion": "registry.volcano.sh/v1alpha1",
            "kind": "Model",
            "metadata": {"name": name},
            "spec": {"backends": list(backends), **spec},
        }
        exists = self.names("models")
        words = ["replace" if name in exists else "create", "-n", self.namespace, "-f", "-"]
        self.cluster.kubectl(*words, text=json.dumps(manifest))

    def get(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.get(kind, name, "-n", self.namespace)
        return found

    def names(self, kind: str) -> set[str]:
        found = self.cluster.get(kind, "-n", self.namespace)["items"]
        return {each["metadata"]["name"] for each in found}

    def there(self, kind: str, name: str) -> dict[str, Any]:
        """The object, once it exists."""
        self.eventually(lambda: name in self.names(kind))
        return self.get(kind, name)

    def gone(self, kind: str, name: str) -> None:
        self.eventually(lambda: name not in self.names(kind), 120)

    def says(self, kind: str, status: str, name: str = "m") -> dict[str, Any]:
        """The condition of the Model, once it has this status."""

        def found() -> dict[str, Any] | None:
            conditions = self.get("model", name).get("status", {}).get("conditions", [])
            return next(
                (each for each in conditions if (each["type"], each["status"]) == (kind, status)), None
            )

        condition: dict[str, Any] = self.eventually(found, 180)
        return condition


@pytest.fixture
def filled_hub(hub) -> Any:
    """With the weights of two models, and an adapter."""
    weights = hubs.Repository({"config.json": b"{}", "model.safetensors": bytes(1 << 20)})
    hub.repositories |= {"org/model": weights, "org/other": weights}
    hub.repositories["org/adapter"] = hubs.Repository({"adapter_config.json": b"{}", "weights": bytes(1000)})
    return hub


@pytest.fixture
def models(cluster, namespace, filled_hub, start, eventually) -> Models:
    """A controller that follows the namespace of the test."""
    log = start("controller", "controller", "--kubeconfig", cluster.kubeconfig, "--namespace", namespace)
    eventually(lambda: "ready" in log.read_text())
    return Models(cluster, namespace, filled_hub.url, eventually)


@pytest.fixture
def engines(process_node, tmp_path) -> Any:
    """A node on which images of engines are simulated ones."""
    file = tmp_path / "images.yaml"
    file.write_text(yaml.safe_dump(IMAGES))
    return process_node("engines", "10.244.96.0/24", f"--images={file}")
