"""A small real API server for one kind at a time, which can be told to misbehave: drop, refuse, forget."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from headgate.cluster import Backoff, Change, ChangeKind, Client, Informer, Pacing

Json = dict[str, Any]


def status(code: int, reason: str, message: str = "", causes: list[Json] | None = None) -> Json:
    """A Kubernetes Status body."""
    body: Json = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return body | {"code": code, "reason": reason, "message": message, "details": {"causes": causes or []}}


class FaultyServer:
    """ConfigMap-like objects under any path, with a history from which watches resume."""

    def __init__(self) -> None:
        self.url = ""
        self._changed = asyncio.Event()
        self._generation = 0
        self.begin()

    # What a test does to it

    def begin(self) -> None:
        """An empty server, as if nothing had happened."""
        self.version = self.oldest = 0
        self.objects: dict[str, Json] = {}
        self.events: list[tuple[int, str, Json]] = []
        self.down = False
        self.refusal = 0
        """With which code it refuses all: 404 where it lacks the kind, 403 where it may not be read."""
        self.namespace = (403, "Forbidden")
        """Code and reason for a request for the namespace itself."""
        self.requests: list[Request] = []
        self.lists = self.watches = 0
        self.drop()

    def put(self, name: str, **data: str) -> Json:
        """Create or change an object."""
        old = self.objects.get(name)
        self.version += 1
        uid = old["metadata"]["uid"] if old else f"uid-{self.version}"
        metadata = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": str(self.version)}
        self.objects[name] = {"metadata": metadata, "data": data}
        self._record("MODIFIED" if old else "ADDED", self.objects[name])
        return self.objects[name]

    def delete(self, name: str) -> None:
        self.version += 1
        last = self.objects.pop(name)
        last = last | {"metadata": last["metadata"] | {"resourceVersion": str(self.version)}}
        self._record("DELETED", last)

    def send(self, kind: str, obj: Json) -> None:
        """An event of any kind, such as BOOKMARK or ERROR, or with an object that is no ConfigMap."""
        self.version += 1
        obj = obj | {"metadata": obj.get("metadata", {}) | {"resourceVersion": str(self.version)}}
        self._record(kind, obj)

    def drop(self) -> None:
        """End every open stream without a word."""
        self._generation += 1
        self._wake()

    def forget(self) -> None:
        """Expire every resource version up to now."""
        self.version += 1
        self.oldest = self.version

    def state(self) -> dict[str, str]:
        return {name: obj["metadata"]["resourceVersion"] for name, obj in self.objects.items()}

    def _record(self, kind: str, obj: Json) -> None:
        self.events.append((self.version, kind, obj))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # What it answers

    async def answer(self, request: Request) -> Response:
        self.requests.append(request)
        if self.down:
            return Response("upstream is away", status_code=503)
        if request.url.path == "/api/v1/namespaces/default":
            code, reason = self.namespace
            return JSONResponse(status(code, reason, "the namespace"), status_code=code)
        if self.refusal:
            self.lists += 1
            return JSONResponse(status(self.refusal, "", "refused"), status_code=self.refusal)
        if request.query_params.get("watch") == "true":
            self.watches += 1
            return StreamingResponse(self._watch(request, self._generation), media_type="application/json")
        return self._list(request)

    def _list(self, request: Request) -> Response:
        self.lists += 1
        names = sorted(self.objects)
        start = int(request.query_params.get("continue", 0))
        limit = int(request.query_params.get("limit", 0)) or len(names) or 1
        metadata: Json = {"resourceVersion": str(self.version)}
        if start + limit < len(names):
            metadata["continue"] = str(start + limit)
        items = [self.objects[name] for name in names[start : start + limit]]
        return JSONResponse({"kind": "ConfigMapList", "metadata": metadata, "items": items})

    async def _watch(self, request: Request, generation: int) -> AsyncIterator[bytes]:
        seen = int(request.query_params["resourceVersion"])
        if seen < self.oldest:
            gone = status(410, "Expired", "too old resource version")
            yield msgspec.json.encode({"type": "ERROR", "object": gone}) + b"\n"
            return
        while generation == self._generation:
            changed = self._changed
            for version, kind, obj in [each for each in self.events if each[0] > seen]:
                seen = version
                yield msgspec.json.encode({"type": kind, "object": obj}) + b"\n"
            if changed is self._changed:
                await changed.wait()


@contextlib.asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[str]:
    """The app on a free loopback port; gives its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="warning", lifespan="off")
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    # Not serve(): its loop looks every 0.1 s whether it should end, and there are many of these tests.
    await server.startup([listener])
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.force_exit = True
        await server.shutdown([listener])


@contextlib.asynccontextmanager
async def faulty_server() -> AsyncIterator[FaultyServer]:
    server = FaultyServer()
    app = Starlette(routes=[Route("/{path:path}", server.answer, methods=["GET"])])
    async with serving(app) as url:
        server.url = url
        yield server
        server.drop()


@pytest.fixture
async def server() -> AsyncIterator[FaultyServer]:
    async with faulty_server() as server:
        yield server


@pytest.fixture
async def client(server: FaultyServer) -> AsyncIterator[Client]:
    async with Client.from_url(server.url) as client:
        yield client


@contextlib.asynccontextmanager
async def running(*coroutines: Coroutine[Any, Any, Any]) -> AsyncIterator[None]:
    """The coroutines run inside the block and are cancelled at its end; if one fails, so does the block."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in coroutines]
        yield
        for task in tasks:
            task.cancel()


async def eventually(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Until it holds; fails with TimeoutError otherwise."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.002)


class Journal:
    """A handler that writes down what it was told, and refuses what could not have happened."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.known: dict[str, str] = {}

    def __call__(self, change: Change[Any]) -> None:
        name, version = change.object.metadata.name, change.object.metadata.resource_version
        self.lines.append(f"{change.kind} {name}")
        if change.kind is ChangeKind.ADDED:
            assert change.old is None
            assert name not in self.known
            self.known[name] = version
        elif change.kind is ChangeKind.MODIFIED:
            assert change.old is not None
            assert change.old.metadata.resource_version == self.known[name]
            assert change.old.metadata.uid == change.object.metadata.uid
            assert int(version) > int(self.known[name])
            self.known[name] = version
        else:
            assert change.new is None
            del self.known[name]


def state(informer: Informer[Any]) -> dict[str, str]:
    return {obj.metadata.name: obj.metadata.resource_version for obj in informer.items()}


QUICK = Pacing(backoff=Backoff(base_s=0.002, cap_s=0.02))


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def kit() -> SimpleNamespace:
    """The helpers of this folder, for tests that can't import their neighbours."""
    return SimpleNamespace(
        Journal=Journal,
        quick=QUICK,
        running=running,
        eventually=eventually,
        state=state,
        status=status,
        serving=serving,
        faulty_server=faulty_server,
    )
