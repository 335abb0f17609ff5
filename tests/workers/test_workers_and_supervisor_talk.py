"""The wire between supervisor and workers: whole messages, or an end."""

import asyncio
import os
import signal
import socket
import struct

import msgspec
import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from headgate import telemetry
from headgate.gateway import GatewaySettings
from headgate.telemetry.sums import Family, Sample
from headgate.workers import channel, messages, pages, process
from headgate.workers.accounts import Accounts
from headgate.workers.configuration import Configuration
from headgate.workers.process import Shared
from headgate.workers.pulse import Pulse
from headgate.workers.shared_queues import SharedQueues
from headgate.workers.supervisor import HandOver, StartError, Supervisor
from headgate.workers.worker import answer

REPORTS = [
    messages.Ready(),
    messages.Answered(7, 200, "application/json", b"{}"),
    messages.Counted(0, [Family("c", "counter", "C.", ("a",), samples=[Sample(("x",), 2.0, [])])]),
    messages.Failed("no cluster connection"),
]


async def test_messages_arrive_whole_and_in_order():
    """Whatever their size; then the end of the other side is told."""
    ours, theirs = socket.socketpair()
    supervisor, worker = await channel.to_worker(ours), await channel.to_supervisor(theirs)
    sent = [*REPORTS, messages.Answered(8, 200, "", b"x" * 500_000), *REPORTS]
    for report in sent:
        assert worker.send(report)
    assert [await supervisor.receive() for _ in sent] == sent
    worker.close()
    with pytest.raises(channel.Closed):
        await supervisor.receive()
    supervisor.close()
    await asyncio.sleep(0)


def test_what_is_left_to_say_to_nobody_is_no_failure():
    """The supervisor may have ended before its worker, whose last words then have no listener."""

    async def speak() -> None:
        ours, theirs = socket.socketpair()
        worker = await channel.to_supervisor(theirs)
        ours.close()
        with pytest.raises(channel.Closed):
            await worker.receive()
        worker.close()
        await asyncio.sleep(0.01)
        assert not worker.send(messages.Ready())
        await worker.flush(1.0)

    uvloop.run(speak())


@given(st.binary(max_size=64))
def test_nonsense_is_an_end_and_nothing_worse(data: bytes):
    """Also where it begins like a message."""

    async def receive() -> None:
        ours, theirs = socket.socketpair()
        supervisor = await channel.to_worker(ours)
        with theirs:
            theirs.send(struct.pack("!I", len(data)) + data + b"\xff\xff\xff\xff")
        try:
            while True:
                assert isinstance(await supervisor.receive(), messages.Report)
        except channel.Closed:
            supervisor.close()
            await asyncio.sleep(0)

    asyncio.run(receive())


async def test_who_does_not_read_is_told_no_more():
    """The memory of the other side is bounded."""
    ours, theirs = socket.socketpair()
    supervisor = await channel.to_worker(ours)
    orders = 0
    while supervisor.send(messages.Ask(orders, "GET", "/", "", b"x" * 10_000)):
        orders += 1
        assert orders < 1000
    assert orders * 10_000 > channel.MAX_UNREAD_BYTES
    await supervisor.flush(0.01)
    theirs.close()
    await asyncio.sleep(0)


def test_settings_of_another_version_are_taken_as_far_as_they_are_known():
    """During an upgrade, a worker may get settings from a newer supervisor."""
    settings = GatewaySettings().replace(shutdown_drain_s=7, scheduling_content={"kind": "K"})
    assert messages.known(messages.written(settings) | {"clients.of_tomorrow": 1, "tomorrow": 2}) == settings


def test_versions_with_flat_settings_are_understood_and_understand():
    """During an upgrade from a version without sections, either end reads what the other wrote."""
    old = {"drain_s": 7.0, "workers": 2, "trusted_clients": ["::1"], "scheduling": {"kind": "K"}, "gone": 1}
    settings = messages.known(old)
    assert settings == GatewaySettings().replace(
        shutdown_drain_s=7.0,
        workers_count=2,
        clients_trusted_networks=("::1",),
        scheduling_content={"kind": "K"},
    )
    written = msgspec.msgpack.decode(msgspec.msgpack.encode(messages.written(settings)))
    del old["gone"]
    assert {name: written[name] for name in old} == old


async def test_pages_answer_what_did_not_come_over_http():
    """Method, path, query and body reach the page; status, type and body come back."""

    async def page(request: Request) -> JSONResponse:
        body = (await request.body()).decode()
        said = [request.method, request.path_params["name"], request.url.query, body]
        return JSONResponse([*said, request.headers["x-tier"], request.scope["raw_path"].decode()], 201)

    app = Starlette(routes=[Route("/debug/{name}", page, methods=["POST"])])
    ask = messages.Ask(5, "POST", "/debug/x%20y", "limit=3", b"body", [("x-tier", "gold")])
    answered = await answer(app, ask)
    assert (answered.id, answered.status, answered.content_type) == (5, 201, "application/json")
    assert msgspec.json.decode(answered.body) == [*("POST", "x y", "limit=3", "body", "gold", "/debug/x%20y")]
    assert (await answer(app, messages.Ask(6, "GET", "/nothing", ""))).status == 404


async def test_a_page_that_fails_or_is_too_long_is_told(monkeypatch):
    """The worker serves requests: somebody who looks at a page must not end it."""

    async def page(request: Request) -> JSONResponse:
        size = int(request.path_params["size"])
        return JSONResponse("x" * size if size else float("nan"))

    monkeypatch.setattr(channel, "MAX_CARRIED_BYTES", 1000)
    app = Starlette(routes=[Route("/debug/{size}", page)])
    found = [await answer(app, messages.Ask(5, "GET", f"/debug/{size}", "")) for size in (998, 999, 0)]
    assert [each.status for each in found] == [200, 500, 500]
    assert b"1001 bytes" in found[1].body
    assert b"see the log" in found[2].body


def any_process() -> int:
    return os.posix_spawn("/bin/sleep", ["sleep", "60"], {})


async def test_what_a_worker_is_told_before_it_can_hear_reaches_it_in_order():
    """Settings that change while it starts, too: it must not go on by those of before."""
    ours, theirs = socket.socketpair()
    pid = any_process()
    worker = process.WorkerProcess(pid, 0, ours, 0.0, [])
    orders = [messages.Begin(0, 1, {}), messages.Change({"endpoints_retries": 5}), messages.Drain(1.0)]
    assert all(worker.tell(order) for order in orders)
    running = asyncio.create_task(worker.run(Shared(Accounts("one"), SharedQueues(1), Pulse()), lambda: None))
    other_end = await channel.to_supervisor(theirs)
    assert [await other_end.receive() for _ in orders] == orders
    other_end.close()
    worker.process.kill()
    await running


@pytest.fixture
def configuration() -> Configuration:
    settings = GatewaySettings().replace(listen_port=0, metrics_port=0, admin_port=0, shutdown_drain_s=0)
    return Configuration(lambda: settings, None, telemetry.Registry())


@pytest.fixture
def no_process_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "COMMAND", ("/nothing/here",))


@pytest.mark.usefixtures("no_process_begins")
async def test_a_gateway_without_any_process_says_why_it_does_not_start(configuration):
    """Not as a traceback: the command tells it."""
    supervisor = Supervisor(configuration, telemetry.Registry())
    try:
        with pytest.raises(ExceptionGroup) as raised:
            await supervisor.run(asyncio.Event(), asyncio.Event())
        assert raised.group_contains(StartError, match="worker 0: No such file or directory")
    finally:
        supervisor.sockets.close()


@pytest.mark.usefixtures("no_process_begins")
async def test_a_process_that_cannot_begin_ends_no_worker_that_serves(configuration, caplog):
    """As when the system has no memory or no number for it: it is tried again, and the others serve on."""
    ours, theirs = socket.socketpair()
    pid = any_process()
    adopted = process.Adopted(
        pid=pid,
        channel=ours.detach(),
        slot=0,
        started=0.0,
        is_retiring=False,
        listeners=[],
        families=[],
    )
    supervisor = Supervisor(configuration, telemetry.Registry(), HandOver(workers=[adopted]))
    stop = asyncio.Event()
    running = asyncio.create_task(supervisor.run(stop, asyncio.Event()))
    while "could not be started: worker 0: No such file or directory" not in caplog.text:
        await asyncio.sleep(0)
        assert not running.done()
    assert supervisor.is_ready
    os.kill(pid, signal.SIGKILL)
    theirs.close()
    stop.set()
    await running
    supervisor.sockets.close()


async def test_a_page_is_asked_with_no_more_than_a_message_carries(configuration, monkeypatch):
    """A worker takes a longer message for nonsense and ends, however long bodies of requests may be."""
    monkeypatch.setattr(channel, "MAX_CARRIED_BYTES", 1000)
    supervisor = Supervisor(configuration, telemetry.Registry())
    app = pages.admin_page(supervisor)
    host = [("host", "localhost")]
    statuses = [
        (await answer(app, messages.Ask(1, "POST", "/debug/explain", "", b"x" * size, host))).status
        for size in (1000, 1001)
    ]
    assert statuses == [503, 413], "no worker is there, and too long"
    supervisor.sockets.close()
