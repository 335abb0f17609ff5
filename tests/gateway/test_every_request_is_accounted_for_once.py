"""Whatever happens to a request, its booking ends, and metrics and log count it once."""

import asyncio
import json
import random

import msgspec
import pytest

from headgate import routing
from headgate.dataplane.records.access_fields import FIELDS

pytestmark = pytest.mark.every_loop

OUTCOMES = ("served", "refuse", "reset", "cut", "silent", "stream", "garbage", "busy", "missing", "close")


def _script(rng):
    """An endpoint that does to each call what the call's body asks for."""

    def behave(call):
        what = call.json["do"]
        later = asyncio.get_running_loop().call_later
        if what == "served":
            call.answer()
        elif what == "refuse":
            call.answer(b"no", "400 Bad Request")
        elif what == "busy":
            call.answer(b"busy", rng.choice(["502 Bad", "503 Busy", "504 Late"]))
        elif what == "reset":
            later(rng.random() / 200, call.reset)
        elif what == "close":
            call.close()
        elif what == "garbage":
            call.write(b"garbage\r\n\r\n")
        elif what in ("cut", "stream"):
            call.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
            end = call.reset if what == "cut" else lambda: call.write(b"0\r\n\r\n")
            later(rng.random() / 100, end)

    return behave


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens(start_gateway, start_endpoint, seed, eventually):
    """A random mixture of ends, with clients that leave and endpoints that come and go, balances at zero."""
    rng = random.Random(seed)
    endpoints = [await start_endpoint(behave=_script(rng)) for _ in range(3)]
    dead = await start_endpoint()
    await dead.stop()
    settings = {"logging_access_log": "json"}
    limits = routing.TokenLimits(input=10**6, output=10**6, unit="month", unit_s=30 * 86_400)
    pool = {"limits": limits, "timeout_s": 0.05, "attempts": 2, "retry_interval_s": 0.002}
    gateway = await start_gateway(*endpoints, dead, settings=settings, **pool)
    sent = answered = 0

    async def use():
        nonlocal sent, answered
        for _ in range(8):
            client = await gateway.connect()
            for _ in range(rng.randint(1, 3)):
                what = rng.choice(OUTCOMES)
                client.post({"model": "nobody" if what == "missing" else "m", "do": what})
                sent += 1
                try:
                    async with asyncio.timeout(rng.choice([0.003, 1, 1])):
                        response = await client.response()
                except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
                    break
                answered += 1
                if response.header("connection") == "close":
                    break
            client.close()
            gateway.shell.plane.ledger.validate()

    async def change():
        while True:
            await asyncio.sleep(0.01)
            chosen = rng.sample([*endpoints, dead], rng.randint(1, 4))
            now_limited = msgspec.structs.replace(limits, input=rng.randint(10, 10**6))
            gateway.serve(chosen, now_limited, timeout_s=0.05, attempts=2, retry_interval_s=0.002)

    changing = asyncio.create_task(change())
    await asyncio.gather(*(use() for _ in range(12)))
    changing.cancel()
    await eventually(lambda: not gateway.shell.clients.all)
    await gateway.idle()
    lines = [json.loads(line) for line in gateway.log_lines()]
    assert gateway.settled == len(lines)
    for line in lines:
        assert list(line) == [field.name for field in FIELDS]
        assert len(line["attempts"]) == line["upstream_attempts"]
        parts = ("request_processing", "upstream_processing", "response_processing")
        durations = [line[f"duration_{part}"] for part in parts]
        assert sum(durations) == line["duration_total"]
        assert min(durations) >= 0
    assert 0 < answered <= gateway.settled <= sent
    gateway.serve(endpoints)
    assert all(load.requests == load.work_tokens == 0 for load in gateway.shell.plane.ledger.loads())


async def test_requests_that_are_cut_by_the_end_of_the_gateway(start_gateway, start_endpoint, eventually):
    """Closing settles those that run, wait to be tried again, or are being connected."""
    endpoint = await start_endpoint(behave=_script(random.Random(1)))
    dead = await start_endpoint()
    await dead.stop()
    gateway = await start_gateway(dead, endpoint, attempts=1, retry_interval_s=60)
    clients = [await gateway.connect() for _ in range(3)]
    for client in clients:
        client.post({"model": "m", "do": "silent"})

    def phases() -> list[str]:
        return [each.exchange.life.phase for each in gateway.shell.clients.all if each.exchange is not None]

    await eventually(lambda: len(phases()) == 3 and set(phases()) == {"sent", "waiting to retry"})
    assert await gateway.shell.drain(0.01) == 3
    await gateway.shell.close()
    await gateway.idle()
    assert gateway.settled == 3
    for client in clients:
        assert await client.rest() == b""
    if endpoint.connections:
        await endpoint.connections[0].lost


USAGE = b'"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12,"details":{"cached":3}}'


@pytest.mark.parametrize("size", [10, 5000])
@pytest.mark.parametrize("log_format", ["text", "json"])
async def test_usage_of_a_plain_answer(start_gateway, endpoint, size, log_format):
    """The token counts at the end of an answer reach metrics and log, in either format, on one line."""
    gateway = await start_gateway(endpoint, settings={"logging_access_log": log_format})
    endpoint.behave = lambda call: call.answer(b'{"choices":["%b"],%b}' % (b"x" * size, USAGE))
    assert (await gateway.ask(path="/v1/completions?secret=1", X_Request_Id="id-1")).status == 200
    tokens = "headgate_gateway_tokens_total"
    assert gateway.metric(tokens, direction="input", model="m", pool="default/pool") == 7
    assert gateway.metric(tokens, direction="output") == 5
    (line,) = gateway.log_lines()
    if log_format == "text":
        for part in (
            '"POST /v1/completions HTTP/1.1" 200 ',
            "model=m ",
            "endpoint=default/pod-0 ",
            "tokens=7/5 ",
            "id=id-1",
        ):
            assert part in line
        assert "secret" not in line
    else:
        entry = msgspec.json.decode(line)
        assert (entry["status_code"], entry["path"], entry["model_name"]) == (200, "/v1/completions", "m")
        assert (entry["input_tokens"], entry["output_tokens"], entry["upstream_attempts"]) == (7, 5, 1)
        assert (entry["selected_pod"], entry["request_id"]) == ("default/pod-0", "id-1")


async def test_usage_of_a_stream(gateway, endpoint):
    """The usage event at a stream's end counts, and the time to the first token is observed."""
    client = await gateway.connect()
    client.post({"model": "m", "stream": True})
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    for text in (b'data: {"choices":[{}],"usage":null}\n\n', b"data: {%b}\n\n" % USAGE, b"data: [DONE]\n\n"):
        call.write(b"%x\r\n%b\r\n" % (len(text), text))
        await asyncio.sleep(0)
    call.write(b"0\r\n\r\n")
    await client.response()
    assert gateway.metric("headgate_gateway_tokens_total", direction="output") == 5
    assert gateway.metric("headgate_gateway_time_to_first_token_seconds_count", model="m") == 1
    assert gateway.metric("headgate_gateway_first_token_error_seconds_count", pool="default/pool") == 1


@pytest.mark.parametrize("cut", range(1, len(USAGE), 6))
async def test_usage_that_comes_in_two_pieces(gateway, endpoint, cut):
    """Wherever the network cuts the usage, also after the first bytes of an answer, it counts."""
    client = await gateway.connect()
    client.post()
    call = await endpoint.call()
    body = b"{%b}\n" % USAGE
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body[: cut + 1])
    await client.head()
    call.write(body[cut + 1 :])
    assert await client.reader.readexactly(len(body)) == body
    assert gateway.metric("headgate_gateway_tokens_total", direction="output") == 5


@pytest.mark.parametrize("count", ["-5", "1e9", "9" * 400, '"7"', "null"])
async def test_usage_that_is_no_count(gateway, endpoint, count):
    """Numbers that no engine means are left out, and the answer is none the worse for them."""
    endpoint.behave = lambda call: call.answer(b'{"usage":{"prompt_tokens":%b}}' % count.encode())
    assert (await gateway.ask()).status == 200
    assert gateway.metric("headgate_gateway_tokens_total") == 0


async def test_models_without_a_route_share_a_label(gateway):
    """Names that clients make up do not become label values (R14)."""
    for place in range(3):
        assert (await gateway.ask({"model": f"made-up-{place}"})).status == 404
    assert gateway.metric("headgate_gateway_requests_total", model="unknown", code="404") == 3
    assert b"made-up" not in gateway.registry.render()
