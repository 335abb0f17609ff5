"""Whatever is sent to the webhook, memory and time are bounded, and a write is not held up."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import cluster
from headgate.webhook import reviews
from headgate.webhook.app import MAX_BODY_BYTES, Application
from headgate.webhook.references import Followed

ROUTE = {
    "apiVersion": "networking.volcano.sh/v1alpha1",
    "kind": "ModelRoute",
    "metadata": {"name": "chat"},
    "spec": {
        "modelName": "chat",
        "rules": [{"targetModels": [{"modelServerName": "gone", "weight": 1}]}],
    },
}
POOL = {
    "apiVersion": "inference.networking.k8s.io/v1",
    "kind": "InferencePool",
    "metadata": {"name": "chat"},
    "spec": {
        "selector": {"matchLabels": {"app": "chat"}},
        "targetPorts": [{"number": 8000}],
        "endpointPickerRef": {"name": "picker", "port": {"number": 9002}, "kind": "Service", "group": ""},
    },
}


def review(obj: Any, **request: Any) -> dict[str, Any]:
    given = {"uid": "u", "operation": "CREATE", "namespace": "default", "object": obj} | request
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": given}


@pytest.fixture
async def application(silent_server: str) -> Any:
    """Of a server that never responds."""
    async with cluster.Client.from_url(silent_server) as client:
        yield Application(client, Followed(client, ()), timeout_s=1.0)


@pytest.fixture
async def silent_server() -> Any:
    async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(keep_silent, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@pytest.fixture
async def http(application: Application) -> Any:
    transport = httpx2.ASGITransport(application)
    async with httpx2.AsyncClient(transport=transport, base_url="https://hook") as client:
        yield client


async def test_a_review_gets_its_response(http: httpx2.AsyncClient) -> None:
    """With the uid of the request, and with warnings."""
    answer = (await http.post("/validate?timeout=5s", json=review(ROUTE))).json()
    assert answer["response"]["uid"] == "u"
    assert answer["response"]["allowed"] is True
    assert answer["response"]["warnings"] == [
        "spec.rules[0].targetModels[0].modelServerName: there is no ModelServer default/gone; requests for "
        "it fail until there is"
    ]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[" * 100_000, 400),
        (b'{"apiVersion": "v1", "kind": "Pod"}', 400),
        (json.dumps(review({"a": [[]] * 100_001})).encode(), 400),
        (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', 400),
        (b"a" * (MAX_BODY_BYTES + 1), 413),
    ],
    ids=["empty", "half", "deep", "other", "many", "without request", "long"],
)
async def test_what_is_not_a_review_is_rejected(
    http: httpx2.AsyncClient, application: Application, body: bytes, status: int
) -> None:
    """And nothing of it is kept."""
    assert (await http.post("/validate", content=body)).status_code == status
    assert application.statistics()["held_bytes"] == 0
    assert application.statistics()["invalid"] == 1


async def test_a_body_without_a_length_is_bounded_too(http: httpx2.AsyncClient) -> None:
    """It counts as the longest."""

    async def parts() -> Any:
        for _ in range(9):
            yield b"a" * (1 << 20)

    assert (await http.post("/validate", content=parts())).status_code == 413


async def test_a_lookup_that_takes_too_long_lets_the_object_pass(
    http: httpx2.AsyncClient, application: Application
) -> None:
    """Before the API server stops to wait."""
    answer = (await http.post("/validate?timeout=1s", json=review(POOL))).json()
    assert answer["response"] == {"uid": "u", "allowed": True}
    assert application.statistics()["late"] == 1


async def test_probes_say_whether_objects_are_loaded(
    http: httpx2.AsyncClient, application: Application
) -> None:
    assert (await http.get("/healthz")).status_code == 200
    assert (await http.get("/readyz")).status_code == 503
    application.is_ready = True
    assert (await http.get("/readyz")).status_code == 200
    assert (await http.get("/")).status_code == 404


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)


@given(JSON, JSON, st.sampled_from(["CREATE", "UPDATE", "DELETE", ""]))
def test_no_object_makes_it_fail(spec: Any, old: Any, operation: str) -> None:
    """One that its schema rejects has no findings."""
    body = json.dumps(review(ROUTE | {"spec": spec}, operation=operation, oldObject=ROUTE | {"spec": old}))
    request = reviews.decoded(body.encode())
    found = reviews.judged(request, reviews.admission.NOBODY)
    assert reviews.response(request, found)["response"]["uid"] == "u"


async def test_objects_of_other_namespaces_are_not_read(silent_server: str) -> None:
    """A webhook for one namespace has no rights in others, and says nothing about their objects."""
    async with cluster.Client.from_url(silent_server) as client:
        application = Application(client, Followed(client, ("prod",)), timeout_s=5.0)
        transport = httpx2.ASGITransport(application)
        async with httpx2.AsyncClient(transport=transport, base_url="https://hook") as http:
            answer = (await http.post("/validate", json=review(POOL))).json()
    assert answer["response"] == {"uid": "u", "allowed": True}
    assert application.statistics()["late"] == 0
