"""An API server for each test: in process without sockets, or the whole over TLS."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headgate.apiserver import Config, Running, running
from headgate.apiserver.app import application
from headgate.apiserver.parts import Parts

Object = dict[str, Any]

WIDGET: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.test.example"},
    "spec": {
        "group": "test.example",
        "scope": "Namespaced",
        "names": {
            "kind": "Widget",
            "plural": "widgets",
            "singular": "widget",
            "shortNames": ["wd"],
            "categories": ["things"],
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.size",
                        "statusReplicasPath": ".status.size",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "additionalPrinterColumns": [
                    {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "Widget is a thing for tests.",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "description": "What is wanted.",
                                "required": ["color"],
                                "properties": {
                                    "color": {
                                        "type": "string",
                                        "enum": ["red", "blue"],
                                        "description": "Its color.",
                                    },
                                    "size": {"type": "integer", "minimum": 0, "default": 1},
                                    "tags": {"type": "array", "items": {"type": "string"}},
                                    "parts": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string"},
                                                "length": {"type": "integer"},
                                            },
                                        },
                                    },
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer"},
                                    "selector": {"type": "string"},
                                    "phase": {"type": "string"},
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}
WIDGETS = "/apis/test.example/v1/namespaces/default/widgets"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def parts(tmp_path: Path) -> Any:
    """The server's parts with the Widget kind, without sockets; background collection does not run."""
    made = Parts(Config(tmp_path / "state", definitions=[WIDGET]))
    yield made
    made.store.close()


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """An HTTP client of a server with Headgate's own kinds."""
    parts = Parts(Config(tmp_path))
    headers = {"authorization": "Bearer t", "user-agent": "test/1"}
    transport = httpx2.ASGITransport(application(parts, "t"))
    async with httpx2.AsyncClient(transport=transport, base_url="https://t", headers=headers) as client:
        yield client
    parts.store.close()


@pytest.fixture
async def client(parts: Parts) -> AsyncIterator[httpx2.AsyncClient]:
    """An HTTP client that calls the application directly."""
    transport = httpx2.ASGITransport(application(parts, "secret"))
    headers = {"authorization": "Bearer secret", "user-agent": "test/1"}
    async with httpx2.AsyncClient(transport=transport, base_url="https://test", headers=headers) as made:
        yield made


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    """The whole server on a port of its own."""
    async with running(Config(tmp_path / "live", port=0, definitions=[WIDGET], bookmark_s=0.1)) as made:
        yield made


@pytest.fixture
async def remote(server: Running) -> AsyncIterator[httpx2.AsyncClient]:
    """An HTTP client of the whole server, over TLS."""
    context = ssl.create_default_context(cafile=server.identity.ca)
    headers = {"authorization": f"Bearer {server.identity.token}", "user-agent": "test/1"}
    async with httpx2.AsyncClient(base_url=server.url, verify=context, headers=headers, timeout=30) as made:
        yield made


@pytest.fixture
def widget() -> Callable[..., Object]:
    """Makes Widgets; keyword arguments are fields of the spec."""

    def make(name: str = "w", labels: dict[str, str] | None = None, **spec: Any) -> Object:
        metadata: Object = {"name": name} | ({"labels": labels} if labels else {})
        return {
            "apiVersion": "test.example/v1",
            "kind": "Widget",
            "metadata": metadata,
            "spec": {"color": "red"} | spec,
        }

    return make


@pytest.fixture
def widgets() -> str:
    return WIDGETS


@pytest.fixture
def config_maps() -> str:
    return CONFIG_MAPS


@pytest.fixture
def widget_definition() -> Object:
    return WIDGET
