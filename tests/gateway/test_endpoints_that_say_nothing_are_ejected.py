"""Responses with status 200 and an error or nothing in them are compared with those of the pool."""

import json
import random

import pytest

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(content):
    return chunk(b"data: %b\n\n" % content)


def whole(body):
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


def used(completion_tokens):
    usage = {"prompt_tokens": 9, "completion_tokens": completion_tokens}
    return json.dumps({"choices": [], "usage": usage}, separators=(",", ":")).encode()


TOKEN = b'{"choices":[{"delta":{"content":"water"}}]}'
DONE = b"[DONE]"
DEAD = b'{"error":{"message":"EngineDeadError","type":"internal_error","code":500}}'
WRONG = b'{"error":{"message":"no such grammar","type":"BadRequestError","code":400}}'
GOOD = {False: whole(used(5)), True: HEAD + event(TOKEN) + event(used(5)) + event(DONE) + LAST}
HOLLOW = {
    "no body": (False, whole(b"")),
    "an error": (False, whole(DEAD)),
    "an error in chunks": (False, HEAD.replace(b"text/event-stream", b"text/json") + chunk(DEAD) + LAST),
    "vLLM's error": (False, whole(b'{"object": "error", "message": "dead", "code": 500}')),
    "no token": (False, whole(used(0))),
    "no event": (True, HEAD + LAST),
    "only an end": (True, HEAD + event(DONE) + LAST),
    "an error event": (True, HEAD + event(DEAD) + event(DONE) + LAST),
    "Anthropic's error": (
        True,
        HEAD + chunk(b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n') + LAST,
    ),
    "an error for a stream": (True, whole(DEAD)),
}
FINE = {
    "an answer without counts": (False, whole(b'{"choices":[{"text":"water"}]}')),
    "text": (False, whole(b"water")),
    "no error": (False, whole(b'{"error":null,"output":[]}')),
    "a client's mistake": (False, whole(WRONG)),
    "a client's mistake in an event": (True, HEAD + event(WRONG) + event(DONE) + LAST),
    "a token without counts": (True, HEAD + event(TOKEN) + event(DONE) + LAST),
    "a token before an error": (True, HEAD + event(TOKEN) + event(DEAD) + LAST),
    "compressed": (
        False,
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\n\x1f\x8b\x08\x00\x00",
    ),
}


async def ask(gateway, stream, count):
    """Requests that come slowly enough to go to whoever looks idle."""
    for _ in range(count):
        assert (await gateway.ask({"model": "m", "stream": stream})).status == 200


@pytest.mark.parametrize("kind", HOLLOW)
async def test_it_gets_no_requests(start_gateway, start_endpoint, kind, caplog):
    """After five requests or a few more, however idle it looks."""
    stream, response = HOLLOW[kind]
    hollow = await start_endpoint(behave=lambda call: call.write(response))
    others = [await start_endpoint(behave=lambda call: call.write(GOOD[stream])) for _ in range(2)]
    gateway = await start_gateway(hollow, *others, settings={"scheduling_policy": "round-robin"})
    await ask(gateway, stream, 40)
    assert 5 <= len(hollow.calls) <= 8
    assert gateway.metric("headgate_gateway_ejections_total", reason="no_content") == 1
    assert "far more than the others, the last: no_content" in caplog.text


@pytest.mark.parametrize("kind", FINE)
async def test_other_responses_are_no_failure(start_gateway, start_endpoint, kind):
    """Whatever has something in it, or tells of a mistake of the client, is a response like any other."""
    stream, response = FINE[kind]
    fine = await start_endpoint(behave=lambda call: call.write(response))
    other = await start_endpoint(behave=lambda call: call.write(GOOD[stream]))
    gateway = await start_gateway(fine, other, settings={"scheduling_policy": "round-robin"})
    await ask(gateway, stream, 40)
    (pool,) = gateway.shell.plane.pools.values()
    assert [load.failures for load in pool.loads] == [0, 0]
    assert len(fine.calls) == 20


async def test_what_all_endpoints_say_ejects_nobody(start_gateway, start_endpoint):
    """If the request is at fault, none of them stands out."""
    endpoints = [await start_endpoint(behave=lambda call: call.write(whole(DEAD))) for _ in range(3)]
    gateway = await start_gateway(*endpoints, settings={"scheduling_policy": "round-robin"})
    await ask(gateway, False, 60)
    (pool,) = gateway.shell.plane.pools.values()
    assert [load.ejection.count for load in pool.loads] == [0, 0, 0]
    assert [load.avoided(gateway.shell.now()) for load in pool.loads] == [False, False, False]


async def test_one_that_is_no_better_goes_again(start_gateway, start_endpoint):
    """The first hollow response after its return ejects it, for twice as long."""
    hollow = await start_endpoint(behave=lambda call: call.write(whole(DEAD)))
    other = await start_endpoint(behave=lambda call: call.write(GOOD[False]))
    gateway = await start_gateway(hollow, other, settings={"scheduling_policy": "round-robin"})
    await ask(gateway, False, 30)
    (pool,) = gateway.shell.plane.pools.values()
    before = len(hollow.calls)
    gateway.shell.plane.rng = random.Random(1)  # it takes part in its share of the choices
    gateway.move(5.01)
    for _ in range(50):
        gateway.move(0.1)
        await ask(gateway, False, 2)
    assert len(hollow.calls) - before == 1
    assert (pool.loads[0].ejection.count, pool.loads[0].ejection.length_s) == (2, 10.0)
