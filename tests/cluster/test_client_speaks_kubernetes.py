"""What the client sends for each verb, and what it makes of the answers."""

import asyncio
import gzip
import resource

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headgate import api
from headgate.cluster import (
    AlreadyExists,
    ApiError,
    CascadeType,
    Client,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    PatchType,
    Unreachable,
)

CONFIG = "/api/v1/namespaces/default/configmaps"


class Recorder:
    """Answers every request with `answer` and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str, object]] = []
        self.code, self.answer = 200, {"metadata": {"name": "a"}}
        self.url = ""

    async def __call__(self, request):
        body = await request.body()
        content = msgspec.json.decode(body) if body else None
        url = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        self.asked.append((request.method, url, request.headers.get("content-type"), content))
        if isinstance(self.answer, bytes):
            return Response(self.answer, status_code=self.code)
        return JSONResponse(self.answer, status_code=self.code)


@pytest.fixture
async def recorder(kit):
    recorder = Recorder()
    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    async with kit.serving(
        Starlette(routes=[Route("/{path:path}", recorder.__call__, methods=methods)])
    ) as url:
        recorder.url = url
        yield recorder


@pytest.fixture
async def client(recorder):
    async with Client.from_url(recorder.url) as client:
        yield client


async def test_objects_are_written_with_their_version_and_kind(recorder, client):
    """A struct needs to say neither: its class does."""
    config = api.ConfigMap(metadata=api.ObjectMeta(name="a", namespace="default"), data={"k": "v"})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}}
    body["metadata"] = {"name": "a", "namespace": "default"}
    await client.create(config)
    await client.replace(config)
    assert recorder.asked == [
        ("POST", CONFIG, "application/json", body),
        ("PUT", f"{CONFIG}/a", "application/json", body),
    ]


@pytest.mark.parametrize(
    ("kind", "content_type", "query"),
    [
        (PatchType.MERGE, "application/merge-patch+json", "fieldManager=headgate"),
        (PatchType.JSON, "application/json-patch+json", "fieldManager=headgate"),
        (PatchType.STRATEGIC, "application/strategic-merge-patch+json", "fieldManager=headgate"),
        (PatchType.APPLY, "application/apply-patch+yaml", "fieldManager=headgate&force=true"),
    ],
)
async def test_every_patch_has_its_content_type(recorder, client, kind, content_type, query):
    """The kind of patch is in the content type, and force is a matter of apply alone."""
    await client.patch(api.ConfigMap, "a", "default", {"data": None}, kind, force=True)
    assert recorder.asked == [("PATCH", f"{CONFIG}/a?{query}", content_type, {"data": None})]


async def test_a_status_is_merged_into_the_subresource(recorder, client):
    """patch_status takes the content of the status field."""
    await client.patch_status(api.Pod, "a", "default", {"phase": "Running"})
    (method, url, _, body), *_ = recorder.asked
    assert (method, body) == ("PATCH", {"status": {"phase": "Running"}})
    assert url.startswith("/api/v1/namespaces/default/pods/a/status?")


async def test_a_deletion_can_name_the_very_object(recorder, client):
    """Grace, propagation and uid are in DeleteOptions."""
    await client.delete(api.Pod, "a", "default", grace_s=0, propagation=CascadeType.FOREGROUND, uid="the-uid")
    assert recorder.asked[0][3] == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "the-uid"},
    }


@pytest.mark.parametrize("name", ["", "..", "a/status", "a?uid=b", "%2e%2e"])
async def test_a_name_that_would_address_something_else_is_never_sent(recorder, client, name):
    """Deleting the Pod "" would delete every Pod."""
    with pytest.raises(Invalid, match=r"metadata\.name"):
        await client.delete(api.Pod, name, "default")
    assert recorder.asked == []


async def test_a_manifest_finds_its_resource_by_discovery(recorder, client):
    """apiVersion and kind are looked up once; an unknown kind is NotFound and named."""
    recorder.answer = {
        "resources": [
            {"name": "deployments", "kind": "Deployment", "namespaced": True},
            {"name": "deployments/scale", "kind": "Scale", "namespaced": True},
        ]
    }
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "x"}}
    await client.apply_manifest(manifest)
    await client.create_manifest(manifest)
    assert [(method, url) for method, url, *_ in recorder.asked] == [
        ("GET", "/apis/apps/v1"),
        ("PATCH", "/apis/apps/v1/namespaces/x/deployments/a?fieldManager=headgate&force=false"),
        ("POST", "/apis/apps/v1/namespaces/x/deployments"),
    ]
    with pytest.raises(NotFound, match="apps/v1 has no kind Scale"):
        await client.resource_of("apps/v1", "Scale")


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
        (403, "Forbidden", Forbidden),
        (500, "InternalError", ApiError),
    ],
)
async def test_a_refusal_becomes_the_error_of_its_reason(recorder, client, kit, code, reason, expected):
    """It carries the Status' code, reason, message and field causes, and says what was asked."""
    causes = [{"reason": "FieldValueInvalid", "message": "too many", "field": "spec.replicas"}]
    recorder.code, recorder.answer = code, kit.status(code, reason, "because", causes)
    with pytest.raises(ApiError) as caught:
        await client.get(api.Pod, "a", "default")
    error = caught.value
    assert type(error) is expected
    assert (error.status_code, error.reason, error.message) == (code, reason, "because")
    assert error.causes[0].field == "spec.replicas"
    assert str(error) == "GET /api/v1/namespaces/default/pods/a: because"


@pytest.mark.parametrize(
    ("code", "answer", "says"),
    [
        (502, b"<html>Bad Gateway</html>", "HTTP 502: <html>Bad Gateway"),
        (500, b"", "HTTP 500"),
        (200, b"\xff\xfe", "not what we expect"),
        (200, {"metadata": 7}, "metadata"),
        (200, b"[" * 100_000, "not what we expect"),
    ],
)
async def test_an_answer_that_is_not_kubernetes_is_an_error_too(recorder, client, code, answer, says):
    """A proxy's page or broken JSON is quoted shortly and raises nothing but ApiError."""
    recorder.code, recorder.answer = code, answer
    with pytest.raises(ApiError, match=says):
        await client.get(api.Pod, "a", "default")


async def test_an_answer_that_was_compressed_unasked_is_not_inflated():
    """Some kilobytes could be gigabytes, and the client says that it takes no compression."""
    bomb = gzip.compress(gzip.compress(b"\0" * (64 << 20)))
    closed = asyncio.Event()

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip, gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb)
        )
        writer.write(bomb)
        await reader.read()
        writer.close()
        await writer.wait_closed()
        closed.set()

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Client.from_url(f"http://127.0.0.1:{port}") as client:
        with pytest.raises(Unreachable, match="compressed"):
            await client.get(api.Pod, "a", "default")
        await closed.wait()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024


async def read_all(client, read_timeout_s):
    async with client.stream_lines("/api/v1/pods", {}, read_timeout_s) as lines:
        return [line async for line in lines]


async def test_a_server_that_is_not_there_is_unreachable(unused_tcp_port):
    """Requests and streams say so in the same way."""
    async with Client.from_url(f"http://127.0.0.1:{unused_tcp_port}") as client:
        with pytest.raises(Unreachable, match="ConnectError"):
            await client.get(api.Pod, "a", "default")
        with pytest.raises(Unreachable, match="ConnectError"):
            await read_all(client, read_timeout_s=60)


async def test_a_silent_stream_ends_after_its_read_timeout():
    """A peer that accepts and then says nothing more does not hold the reader for ever."""
    closed = asyncio.Event()

    async def headers_only(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await reader.read()
        writer.close()
        await writer.wait_closed()
        closed.set()

    mute = await asyncio.start_server(headers_only, "127.0.0.1", 0)
    port = mute.sockets[0].getsockname()[1]
    async with mute, Client.from_url(f"http://127.0.0.1:{port}") as client:
        with pytest.raises(Unreachable, match="ReadTimeout"):
            await read_all(client, read_timeout_s=0.05)
        await closed.wait()
