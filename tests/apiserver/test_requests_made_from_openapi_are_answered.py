"""Requests made up from the server's own OpenAPI documents: each answer is one that the document tells of.

`HEADGATE_EXAMPLES=2000` makes up that many for each document.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, checks

from headgate.apiserver import Config, openapi
from headgate.apiserver.app import application
from headgate.apiserver.parts import Parts

EXAMPLES = int(os.environ.get("HEADGATE_EXAMPLES", "60"))
DOCUMENTS = [("", "v1"), ("apps", "v1"), ("test.example", "v1"), ("apiextensions.k8s.io", "v1")]
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
POD = {"containers": [{"name": "c", "image": "i"}]}
LABELS = {"matchLabels": {"app": "a"}}
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": POD}
PRESENT: dict[str, Any] = {
    "/api/v1/namespaces/default/configmaps": {"data": {"k": "v"}},
    "/api/v1/namespaces/default/pods": {"spec": POD},
    "/apis/apps/v1/namespaces/default/deployments": {"spec": {"selector": LABELS, "template": TEMPLATE}},
    "/apis/test.example/v1/namespaces/default/widgets": {"spec": {"color": "red"}},
}


class Server:
    """The application with an object named "a" of some kinds, and a loop to ask it."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._runner = asyncio.Runner()
        self._client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(application(parts, "secret"), raise_app_exceptions=False),
            base_url="https://test",
        )
        for path, obj in PRESENT.items():
            made = self.ask(method="POST", url=path, json=obj | {"metadata": {"name": "a"}})
            assert made.status_code == 201, made.text

    def ask(self, headers: Any = None, **request: Any) -> httpx2.Response:
        headers = {**(headers or {}), "authorization": "Bearer secret"}
        return self._runner.run(self._client.request(headers=headers, **request))

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
        self.parts.store.close()


@pytest.fixture
def server(tmp_path: Path, widget_definition: Any) -> Iterator[Server]:
    made = Server(Parts(Config(tmp_path, definitions=[widget_definition])))
    yield made
    made.close()


def cases(document: Any) -> st.SearchStrategy[Any]:
    """Requests of all operations: as the document has them and not, to what exists and to what does not."""
    operations = [found.ok() for found in schemathesis.openapi.from_dict(document).get_all_operations()]
    return st.one_of(
        operation.as_strategy(mode, path_parameters=place or None)
        for operation in operations
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        for place in _places(operation.path)
    )


def _places(path: str) -> list[dict[str, str]]:
    known = {"namespace": "default", "name": "a"}
    return [{}, {name: value for name, value in known.items() if f"{{{name}}}" in path}]


@pytest.mark.parametrize(("group", "version"), DOCUMENTS)
def test_every_answer_is_one_of_the_document(server: Server, group: str, version: str) -> None:
    """No made-up request is answered by a server error, an undocumented status, or another shape."""
    document = openapi.document(server.parts.registry, group, version)

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(cases(document))
    def answered(case: Any) -> None:
        if isinstance(case.query, dict):
            case.query.pop("watch", None)  # an answer without an end
        request = case.as_transport_kwargs(base_url="https://test")
        if isinstance(data := request.pop("data", None), (str, bytes)):
            request["content"] = data
        request.pop("cookies", None)
        case.validate_response(server.ask(**request), checks=CHECKS)

    answered()
