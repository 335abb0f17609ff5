"""What happened to an object reaches the server once, with a count."""

from datetime import UTC, datetime

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from headgate import api
from headgate.cluster import Client, EventRecorder, EventType

POD = api.Pod(metadata=api.ObjectMeta(name="engine", namespace="default", uid="u1"))


class EventServer:
    """Stores events, and refuses or forgets them on demand."""

    def __init__(self, status) -> None:
        self.status = status
        self.events: dict[str, dict] = {}
        self.refuse = False

    async def create(self, request):
        if self.refuse:
            return JSONResponse(self.status(403, "Forbidden"), status_code=403)
        event = msgspec.json.decode(await request.body())
        self.events[event["metadata"]["name"]] = event
        return JSONResponse(event, status_code=201)

    async def patch(self, request):
        event = self.events.get(request.path_params["name"])
        if event is None:
            return JSONResponse(self.status(404, "NotFound"), status_code=404)
        event |= msgspec.json.decode(await request.body())
        return JSONResponse(event)


@pytest.fixture
async def events(kit):
    server = EventServer(kit.status)
    path = "/api/v1/namespaces/default/events"
    routes = [
        Route(path, server.create, methods=["POST"]),
        Route(path + "/{name}", server.patch, methods=["PATCH"]),
    ]
    async with kit.serving(Starlette(routes=routes)) as url, Client.from_url(url) as client:
        server.recorder = EventRecorder(
            client, "node", clock=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        )
        yield server


async def test_the_same_event_three_times_is_one_with_a_count_of_three(events, kit):
    """Twice before it was written and once after; another message is another event."""
    recorder = events.recorder
    recorder.record(POD, EventType.WARNING, "Unhealthy", "no answer")
    recorder.record(POD, EventType.WARNING, "Unhealthy", "no answer")
    async with kit.running(recorder.run()):
        await kit.eventually(lambda: recorder.statistics().written == 1)
        recorder.record(POD, EventType.WARNING, "Unhealthy", "no answer")
        recorder.record(POD, EventType.NORMAL, "Started", "it runs")
        await kit.eventually(lambda: recorder.statistics().written == 3)
    unhealthy, started = events.events.values()
    assert (unhealthy["count"], started["count"]) == (3, 1)
    assert unhealthy["involvedObject"] == {
        "apiVersion": "v1", "kind": "Pod", "name": "engine", "namespace": "default", "uid": "u1",
    }  # fmt: skip
    assert unhealthy["lastTimestamp"] == "2026-01-02T03:04:05Z"
    assert unhealthy["source"] == {"component": "node"}


async def test_an_event_that_expired_on_the_server_begins_again(events, kit):
    """The server forgets events after an hour; the next occurrence is a new one."""
    recorder = events.recorder
    async with kit.running(recorder.run()):
        for written in (1, 2):
            recorder.record(POD, EventType.NORMAL, "Pulled", "again")
            await kit.eventually(lambda n=written: recorder.statistics().written == n)
            if written == 1:
                events.events.clear()
    assert [event["count"] for event in events.events.values()] == [1]


async def test_telling_never_blocks_and_is_bounded(events, kit):
    """While nothing is written, the 1,001st different event is dropped and counted, as is a refused one."""
    recorder = events.recorder
    for number in range(1001):
        recorder.record(POD, EventType.NORMAL, "Numbered", str(number))
    assert recorder.statistics().pending == 1000
    assert recorder.statistics().dropped == 1
    events.refuse = True
    async with kit.running(recorder.run()):
        await kit.eventually(lambda: recorder.statistics().dropped > 1)
