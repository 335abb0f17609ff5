"""A stopped process accepts connections and never responds: its requests soon go elsewhere."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from headgate.observe.endpoint_requests import UNANSWERED_S

LONG_S = 2.0
PATIENT = {"engine_metrics_timeout_s": 600}
"""A query of a stopped endpoint stays open, however slow the machine is."""
SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.command == "POST":
            self.rfile.read(int(self.headers["content-length"]))
        body = b'{"data": [{"id": "m"}]}' if self.command == "GET" else b"stopped"
        self.send_response(200 if self.path != "/metrics" else 404)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_GET
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Looks for silence a hundred times a second."""
    monkeypatch.setattr("headgate.gateway.shell.SWEEP_INTERVAL_S", 0.01)
    monkeypatch.setattr("headgate.observe.model_list.SOONEST_S", 0.05)


def lists(call):
    """Answers what the gateway asks."""
    if call.target == "/v1/models":
        call.answer(json.dumps({"data": [{"id": "m"}]}).encode())
    else:
        call.answer(b"", "404 Not Found")


class Engine:
    """Without a metrics page. What it does with requests is the test's."""

    def __init__(self):
        self.is_stopped = self.holds_requests = False
        self.held = []

    def __call__(self, call):
        if self.is_stopped:
            self.held.append(call)
        elif call.method == "GET":
            lists(call)
        elif self.holds_requests:
            self.held.append(call)
        else:
            call.answer(b"yes")

    @property
    def requests(self):
        return [call for call in self.held if call.method == "POST"]


def know_silences(gateway, seconds=0.1, count=50):
    (pool,) = gateway.shell.plane.pools.values()
    for _ in range(count):
        for silences in pool.evidence.silences:
            silences.note(seconds)
    return pool


async def start(start_looking, start_endpoint, eventually, engines, **settings):
    """A gateway that has heard of all of them."""
    gateway = await start_looking(
        *[await start_endpoint(behave=engine) for engine in engines], settings=PATIENT | settings
    )
    pool = know_silences(gateway)
    await eventually(lambda: all(gateway.shell.scraper.watch(load).heard_at > 0 for load in pool.loads))
    return gateway, pool


@pytest.mark.parametrize("stream", [False, True])
async def test_its_requests_go_elsewhere(start_looking, start_endpoint, eventually, caplog, stream):
    """After three times the 99th percentile of the silences before responses, two seconds at least; and the
    endpoint is ejected, which the log tells."""
    engines = [Engine(), Engine()]
    gateway, pool = await start(start_looking, start_endpoint, eventually, engines)
    engines[0].is_stopped = True
    asking = asyncio.create_task(gateway.ask({"model": "m", "stream": stream}))
    await eventually(lambda: engines[0].requests and gateway.is_asking(pool.loads[0]))
    gateway.move(UNANSWERED_S)
    await asyncio.sleep(0.1)
    assert not asking.done()
    gateway.move(LONG_S)
    assert (await asking).body == b"yes"
    assert gateway.metric("headgate_gateway_ejections_total", reason="hang") == 1
    assert gateway.metric("headgate_gateway_attempts_failed_total", reason="hang") == 1
    assert pool.loads[0].ejection.until > gateway.shell.now()
    assert "after responding to none of its requests, while other endpoints responded" in caplog.text


async def test_requests_with_a_part_of_a_response_stay(start_looking, start_endpoint, eventually):
    """The endpoint is ejected, but nobody else is asked to do work that may be done."""
    engines = [Engine(), Engine()]
    gateway, pool = await start(start_looking, start_endpoint, eventually, engines)
    engines[0].is_stopped = True
    asking = asyncio.create_task(gateway.ask())
    await eventually(lambda: engines[0].requests)
    engines[0].requests[0].write(b"HTTP/1.1 200")
    await asyncio.sleep(0.1)
    await eventually(lambda: gateway.is_asking(pool.loads[0]))
    gateway.move(LONG_S)
    await eventually(lambda: pool.loads[0].ejection.count)
    engines[0].requests[0].write(b" OK\r\ncontent-length: 5\r\n\r\nafter")
    assert (await asking).body == b"after"
    assert gateway.metric("headgate_gateway_attempts_failed_total") == 0


def _state_of(pid):
    """As ps shows it: T once the process has stopped, which SIGSTOP does not wait for."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def test_a_stopped_process(start_looking, start_endpoint, eventually):
    """The same with a real one, which gets SIGSTOP."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, stdout=asyncio.subprocess.PIPE
    )
    try:
        port = int(await process.stdout.readline())
        stopped = SimpleNamespace(port=port)
        gateway = await start_looking(stopped, await start_endpoint(behave=Engine()), settings=PATIENT)
        pool = know_silences(gateway)
        await eventually(lambda: all(gateway.shell.scraper.watch(load).heard_at > 0 for load in pool.loads))
        assert (await gateway.ask()).body == b"stopped"
        os.kill(process.pid, signal.SIGSTOP)
        await eventually(lambda: _state_of(process.pid) == "T")
        asking = asyncio.create_task(gateway.ask())
        await eventually(lambda: pool.loads[0].requests and gateway.is_asking(pool.loads[0]))
        gateway.move(LONG_S)
        assert (await asking).body == b"yes"
    finally:
        process.kill()
        await process.wait()


async def test_a_process_that_is_stopped_for_long(start_looking, start_endpoint, eventually):
    """Requests that it gets as it returns leave it as well, however long it has been silent."""
    engines = [Engine(), Engine()]
    gateway, pool = await start(start_looking, start_endpoint, eventually, engines)
    engines[0].is_stopped = True
    await eventually(lambda: gateway.is_asking(pool.loads[0]))
    gateway.move(600)
    asking = asyncio.create_task(gateway.ask())
    await eventually(lambda: engines[0].requests)
    await asyncio.sleep(0.2)
    gateway.move(LONG_S)
    assert (await asking).body == b"yes"
    assert gateway.metric("headgate_gateway_ejections_total", reason="hang") == 1


async def test_who_answers_questions_is_only_slow(start_looking, start_endpoint, eventually):
    """A long queue, or a long answer that comes in one piece, looks the same but for that."""
    engines = [Engine(), Engine()]
    gateway, pool = await start(start_looking, start_endpoint, eventually, engines)
    engines[0].holds_requests = True
    asking = asyncio.create_task(gateway.ask())
    await eventually(lambda: engines[0].requests and not gateway.is_asking(pool.loads[0]))
    gateway.move(5 * LONG_S)
    await asyncio.sleep(0.5)
    engines[0].requests[0].answer(b"late")
    assert (await asking).body == b"late"
    assert gateway.metric("headgate_gateway_attempts_failed_total") == 0


async def test_silence_of_all_tells_nothing(start_looking, start_endpoint, eventually):
    """Where no endpoint answers, requests wait."""
    engines = [Engine(), Engine()]
    gateway, pool = await start(start_looking, start_endpoint, eventually, engines)
    for engine in engines:
        engine.is_stopped = True
    asking = asyncio.create_task(gateway.ask())
    await eventually(lambda: engines[0].requests and all(map(gateway.is_asking, pool.loads)))
    gateway.move(LONG_S + 1)
    await asyncio.sleep(0.5)
    engines[0].requests[0].answer(b"late")
    assert (await asking).body == b"late"
    assert gateway.metric("headgate_gateway_ejections_total") == 0


async def test_nothing_is_sent_twice_once_a_byte_came(start_looking, start_endpoint, eventually):
    """The head of the response is one."""
    engines = [Engine(), Engine()]
    gateway, pool = await start(start_looking, start_endpoint, eventually, engines)
    engines[0].holds_requests = True
    asking = asyncio.create_task(gateway.ask())
    await eventually(lambda: engines[0].requests)
    engines[0].requests[0].write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n")
    await asyncio.sleep(0.05)
    engines[0].is_stopped = True
    await eventually(lambda: gateway.is_asking(pool.loads[0]))
    gateway.move(5 * LONG_S)
    await asyncio.sleep(0.5)
    engines[0].requests[0].write(b"late")
    assert (await asking).body == b"late"


async def test_before_enough_is_known_it_takes_as_long_as_a_hang(start_looking, start_endpoint, eventually):
    """`hang_s`, that is."""
    engines = [Engine(), Engine()]
    endpoints = [await start_endpoint(behave=engine) for engine in engines]
    gateway = await start_looking(*endpoints, settings=PATIENT)
    (pool,) = gateway.shell.plane.pools.values()
    await eventually(lambda: all(gateway.shell.scraper.watch(load).heard_at > 0 for load in pool.loads))
    engines[0].is_stopped = True
    asking = asyncio.create_task(gateway.ask())
    await eventually(lambda: engines[0].requests and gateway.is_asking(pool.loads[0]))
    gateway.move(10)
    await asyncio.sleep(0.5)
    assert not asking.done()
    gateway.move(21)
    assert (await asking).body == b"yes"


async def test_without_a_retry_to_spare_it_goes_on_waiting(start_looking, start_endpoint, eventually):
    """It is not given up for a suspicion."""
    engines = [Engine(), Engine()]
    gateway, pool = await start(start_looking, start_endpoint, eventually, engines, endpoints_retries=0)
    engines[0].is_stopped = True
    asking = asyncio.create_task(gateway.ask())
    await eventually(lambda: engines[0].requests and gateway.is_asking(pool.loads[0]))
    gateway.move(LONG_S)
    await eventually(lambda: gateway.metric("headgate_gateway_ejections_total", reason="hang"))
    engines[0].requests[0].answer(b"late")
    assert (await asking).body == b"late"
