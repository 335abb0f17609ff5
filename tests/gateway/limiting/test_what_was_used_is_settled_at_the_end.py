"""A finished request charges its route what the engine counted, and nothing if no work was done."""

import asyncio
import gzip
import json
import zlib

import brotli
import pytest

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(**content: object) -> bytes:
    return chunk(b"data: %b\n\n" % json.dumps(content, separators=(",", ":")).encode())


TOKEN = event(choices=[{"index": 0, "delta": {"content": "water"}}])
LAST = event(choices=[{"index": 0, "delta": {"content": "gate!"}}])
LIMITS = {"input": 1000, "output": 1000}


async def test_counts_of_the_engine_go_before_the_estimate(
    start_gateway, start_endpoint, per_month, prompt, counted, left
):
    """Too much that was reserved comes back, too little is charged."""
    gateway = await start_gateway(await start_endpoint(counted(30, 7)), limits=per_month(**LIMITS))
    await gateway.ask(prompt(8))
    assert left(gateway) == (970, 993)
    gateway = await start_gateway(await start_endpoint(counted(3, 400)), limits=per_month(**LIMITS))
    await gateway.ask(prompt(8))
    assert left(gateway) == (997, 600)


async def test_while_a_request_runs_its_estimate_is_taken(
    gateway, endpoint, per_month, prompt, counted, left
):
    """The prompt as its bytes have it, and an answer of the usual length or as long as the client allows."""
    gateway.serve([endpoint], per_month(**LIMITS))
    client = await gateway.connect()
    client.post(prompt(8))
    call = await endpoint.call()
    assert left(gateway) == (992, 750)
    call.answer(counted(8, 20))
    await client.response()
    client.post(prompt(8, max_tokens=5))
    call = await endpoint.call()
    assert left(gateway) == (984, 975)
    call.answer(counted(8, 5))
    await client.response()
    assert left(gateway) == (984, 975)


async def test_a_stream_is_settled_by_its_usage(gateway, endpoint, per_month, prompt, left):
    """The counts that the gateway asked the engine for, and took out of the answer again."""
    gateway.serve([endpoint], per_month(**LIMITS))
    client = await gateway.connect()
    client.post(prompt(8, stream=True))
    call = await endpoint.call()
    call.write(STREAM + TOKEN * 3)
    call.write(event(choices=[], usage={"prompt_tokens": 12, "completion_tokens": 5}) + b"0\r\n\r\n")
    response = await client.response()
    assert b"usage" not in response.body
    assert left(gateway) == (988, 995)


async def test_a_client_that_leaves_pays_for_what_came(
    gateway, endpoint, per_month, prompt, left, eventually
):
    """The prompt as estimated, and a token for each event that came until then."""
    gateway.serve([endpoint], per_month(**LIMITS))
    client = await gateway.connect()
    client.post(prompt(8, stream=True))
    call = await endpoint.call()
    call.write(STREAM + TOKEN * 24 + LAST)
    await client.reader.readuntil(b"gate!")
    client.close()
    await eventually(lambda: gateway.settled == 1)
    assert left(gateway) == (992, 975)


async def test_a_client_that_leaves_before_the_answer_pays_nothing(
    gateway, endpoint, per_month, prompt, left, eventually
):
    """All comes back."""
    gateway.serve([endpoint], per_month(**LIMITS))
    client = await gateway.connect()
    client.post(prompt(8))
    await endpoint.call()
    client.close()
    await eventually(lambda: gateway.settled == 1)
    assert left(gateway) == (1000, 1000)


async def test_an_endpoint_that_breaks_off_counts_as_far_as_it_came(
    gateway, endpoint, per_month, prompt, left
):
    """What the client got of the answer was generated."""
    gateway.serve([endpoint], per_month(**LIMITS))
    client = await gateway.connect()
    client.post(prompt(8, stream=True))
    call = await endpoint.call()
    call.write(STREAM + TOKEN * 9 + LAST)
    await client.reader.readuntil(b"gate!")
    call.reset()
    await client.rest()
    assert left(gateway) == (992, 990)


@pytest.mark.parametrize("status", ["400 Bad Request", "429 Too Many Requests", "500 Internal Server Error"])
async def test_errors_of_an_endpoint_cost_nothing(
    start_gateway, start_endpoint, per_month, prompt, left, status
):
    """An engine that refuses has done no work."""
    endpoint = await start_endpoint(behave=lambda call: call.answer(b'{"error":{}}', status))
    gateway = await start_gateway(endpoint, limits=per_month(**LIMITS))
    assert (await gateway.ask(prompt(8))).status == int(status[:3])
    assert left(gateway) == (1000, 1000)


async def test_attempts_on_several_endpoints_count_once(
    start_gateway, start_endpoint, per_month, prompt, counted, left
):
    """Whoever answers in the end."""
    dead = await start_endpoint(behave=lambda call: call.close())
    alive = await start_endpoint(counted(8, 5))
    gateway = await start_gateway(dead, alive, limits=per_month(**LIMITS))
    for place in range(1, 4):
        assert (await gateway.ask(prompt(8))).status == 200
        assert left(gateway) == (1000 - 8 * place, 1000 - 5 * place)
    assert dead.calls


async def test_no_endpoint_costs_nothing(start_gateway, endpoint, per_month, prompt, left):
    """A pool that cannot serve leaves the limit as it was."""
    gateway = await start_gateway(endpoint, limits=per_month(**LIMITS))
    gateway.serve([], per_month(**LIMITS))
    assert (await gateway.ask(prompt(8))).status == 503
    assert left(gateway) == (1000, 1000)


async def test_an_answer_without_counts_is_estimated(start_gateway, start_endpoint, per_month, prompt, left):
    """The prompt stays as it was estimated, and four bytes of the answer count as a token."""
    gateway = await start_gateway(await start_endpoint(b"x" * 100), limits=per_month(**LIMITS))
    assert (await gateway.ask(prompt(8))).status == 200
    assert left(gateway) == (992, 975)


@pytest.mark.parametrize(
    "usage",
    [
        b"{}",
        b'{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}',
        b'{"prompt_tokens":-5,"completion_tokens":7}',
        b'{"prompt_tokens":1e308,"completion_tokens":7}',
        b'{"prompt_tokens":"8","completion_tokens":7}',
        b'{"prompt_tokens":8,"completion_tokens":9007199254740992}',
        b'{"prompt_tokens":8,"completion_tokens":131073}',
        b'{"prompt_tokens":1048577,"completion_tokens":7}',
        b'{"input_tokens":1048577,"output_tokens":7}',
        b'{"input_tokens":9,"cache_read_input_tokens":1048577,"output_tokens":7}',
    ],
)
async def test_counts_that_cannot_be_are_not_believed(
    start_gateway, start_endpoint, per_month, prompt, left, usage
):
    """An engine that tells no tokens at all, or more than any context window has, leaves it at the estimate;
    later answers are expected to be as long as ever."""
    endpoint = await start_endpoint(b'{"choices":[{"text":"%b"}],"usage":%b}' % (b"x" * 100, usage))
    gateway = await start_gateway(endpoint, limits=per_month(**LIMITS))
    assert (await gateway.ask(prompt(8))).status == 200
    remaining, produced = left(gateway)
    assert remaining == 992
    assert 940 <= produced <= 970
    assert not gateway.shell.plane.sizes.answers.statistics()


async def test_a_count_above_the_usual_bounds_needs_as_many_bytes(
    start_gateway, start_endpoint, per_month, prompt, left
):
    """Whoever sends a long prompt, or gets a long answer, has it counted."""
    usage = b'{"prompt_tokens":1100000,"completion_tokens":140000}'
    endpoint = await start_endpoint(b'{"choices":[{"text":"%b"}],"usage":%b}' % (b"x" * 140_000, usage))
    gateway = await start_gateway(endpoint, limits=per_month(input=2_000_000, output=200_000))
    assert (await gateway.ask(prompt(300_000))).status == 200
    assert left(gateway) == (900_000, 60_000)


@pytest.mark.parametrize("stream", [False, True])
async def test_engines_are_asked_not_to_compress(gateway, endpoint, per_month, prompt, counted, left, stream):
    """Counts cannot be read in compressed bytes; clients say by themselves that they take them."""
    gateway.serve([endpoint], per_month(**LIMITS))
    client = await gateway.connect()
    client.post(prompt(8, stream=stream), accept_encoding="gzip, deflate, br, zstd")
    call = await endpoint.call()
    assert [value for name, value in call.headers if name == "accept-encoding"] == ["identity"]
    call.answer(counted(30, 7))
    await client.response()
    assert left(gateway) == (970, 993)


PACK = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress}
PACKED_HEAD = "HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-encoding: %s\r\n"


def packed_in_parts(coding: str, parts: list[bytes]) -> list[bytes]:
    """Each part can be inflated when it has come."""
    if coding == "br":
        brotlied = brotli.Compressor()
        return [*(brotlied.process(part) + brotlied.flush() for part in parts), brotlied.finish()]
    deflated = zlib.compressobj(wbits=31 if coding == "gzip" else 15)
    flushed = [deflated.compress(part) + deflated.flush(zlib.Z_SYNC_FLUSH) for part in parts]
    return [*flushed, deflated.flush()]


@pytest.mark.parametrize("framing", ["counted", "chunked", "until close"])
@pytest.mark.parametrize("coding", PACK)
async def test_a_compressed_answer_is_charged_by_what_it_contains(
    gateway, endpoint, per_month, prompt, counted, left, coding, framing
):
    """The counts in it are read, and its bytes pass as they came."""
    gateway.serve([endpoint], per_month(**LIMITS))
    client = await gateway.connect()
    client.post(prompt(8))
    call = await endpoint.call()
    packed = PACK[coding](b'{"text":"%b",' % (b"water" * 100) + counted(30, 7)[1:])
    framed = chunk(packed[:9]) + chunk(packed[9:]) + b"0\r\n\r\n" if framing == "chunked" else packed
    lines = {"counted": f"content-length: {len(packed)}\r\n", "chunked": "transfer-encoding: chunked\r\n"}
    head = PACKED_HEAD % ("application/json", coding) + lines.get(framing, "") + "\r\n"
    call.write(head.encode() + framed[:20])
    response = await client.head()
    call.write(framed[20:])
    if framing == "until close":
        call.close()
    assert (await client.read_body(response)).body == packed
    assert response.header("content-encoding") == coding
    await gateway.idle()
    assert left(gateway) == (970, 993)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
@pytest.mark.parametrize("coding", PACK)
async def test_a_compressed_stream_is_charged_by_what_it_contains(
    gateway, endpoint, per_month, prompt, left, path, coding, version
):
    """Whatever is flushed between its events; one of messages tells its prompt at the beginning."""
    gateway.serve([endpoint], per_month(**LIMITS))
    client = await gateway.connect()
    body = json.dumps(prompt(8, stream=True)).encode()
    client.send(
        f"POST {path} HTTP/{version}\r\nhost: g\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    )
    call = await endpoint.call()
    if path == "/v1/messages":
        begun = {"type": "message_start", "message": {"usage": {**BEGUN, "input_tokens": 30}}}
        ended = {"type": "message_delta", "usage": {"output_tokens": 7}}
    else:
        begun, ended = {}, {"choices": [], "usage": {"prompt_tokens": 330, "completion_tokens": 7}}
    events = [begun, *({"text": f"water {number}" * 20} for number in range(100)), ended]
    parts = packed_in_parts(coding, [b"data: %b\n\n" % json.dumps(each).encode() for each in events])
    head = PACKED_HEAD % ("text/event-stream", coding) + "transfer-encoding: chunked\r\n\r\n"
    call.write(head.encode() + chunk(parts[0]))
    response = await client.head()
    for part in parts[1:]:
        call.write(chunk(part))
        await asyncio.sleep(0)
    call.write(b"0\r\n\r\n")
    assert (await client.read_body(response)).body == b"".join(parts)
    await gateway.idle()
    assert left(gateway) == (670, 993)


@pytest.mark.parametrize("coding", PACK)
async def test_a_client_that_leaves_a_compressed_stream_pays_for_what_came(
    gateway, endpoint, per_month, prompt, left, eventually, coding
):
    """A token for each event that can be inflated."""
    gateway.serve([endpoint], per_month(**LIMITS))
    client = await gateway.connect()
    client.post(prompt(8, stream=True))
    call = await endpoint.call()
    events = [b'data: {"text":"water"}\n\n'] * 24 + [b'data: {"text":"gate!"}\n\n']
    parts = packed_in_parts(coding, events)[:-1]
    head = PACKED_HEAD % ("text/event-stream", coding) + "transfer-encoding: chunked\r\n\r\n"
    call.write(head.encode() + b"".join(map(chunk, parts)))
    await client.head()
    await client.reader.readuntil(chunk(parts[-1]))
    client.close()
    await eventually(lambda: gateway.settled == 1)
    assert left(gateway) == (992, 975)


@pytest.mark.parametrize("coding", ["gzip, gzip", "zstd"])
async def test_an_answer_in_an_unknown_coding_is_estimated(
    start_gateway, start_endpoint, per_month, prompt, counted, left, coding
):
    """Nobody looks into an answer that is encoded twice."""
    packed = gzip.compress(gzip.compress(counted(30, 7)))
    endpoint = await start_endpoint(behave=lambda call: call.answer(packed, **{"content-encoding": coding}))
    gateway = await start_gateway(endpoint, limits=per_month(**LIMITS))
    assert (await gateway.ask(prompt(8))).body == packed
    assert left(gateway) == (992, 1000 - len(packed))


@pytest.mark.parametrize(("length", "charged"), [(20, 20), (100, 100), (3000, 250)])
async def test_a_compressed_answer_is_charged_by_what_is_known(
    start_gateway, start_endpoint, per_month, prompt, left, length, charged
):
    """If it is broken, an answer of the usual length, at most a token for each byte."""
    packed = {"content-encoding": "gzip", "content-type": "application/json"}
    endpoint = await start_endpoint(
        behave=lambda call: call.answer(b"\x1f\x8b" + b"x" * (length - 2), **packed)
    )
    gateway = await start_gateway(endpoint, limits=per_month(**LIMITS))
    assert (await gateway.ask(prompt(8))).header("content-encoding") == "gzip"
    assert left(gateway) == (992, 1000 - charged)


async def test_what_was_cached_counts_in_anthropics_api_too(
    start_gateway, start_endpoint, per_month, prompt, left
):
    """It tells what its cache held, and what it put there, apart from the rest of the prompt."""
    usage = (
        b'"input_tokens":10,"cache_read_input_tokens":90,"cache_creation_input_tokens":50,"output_tokens":4'
    )
    endpoint = await start_endpoint(b'{"usage":{%b}}' % usage)
    gateway = await start_gateway(endpoint, limits=per_month(**LIMITS))
    assert (await gateway.ask(prompt(8), "/v1/messages")).status == 200
    assert left(gateway) == (850, 996)


def message_start(**usage: int | None) -> bytes:
    content = {"type": "message_start", "message": {"type": "message", "content": [], "usage": usage}}
    return chunk(b"event: message_start\ndata: %b\n\n" % json.dumps(content).encode())


def message_end(**usage: int) -> bytes:
    content = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    last = b"event: message_delta\ndata: %b\n\n" % json.dumps(content).encode()
    return chunk(last) + chunk(b'event: message_stop\ndata: {"type":"message_stop"}\n\n') + b"0\r\n\r\n"


WORD = b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"water"}}\n\n'
BEGUN = {"input_tokens": 20, "cache_read_input_tokens": 300, "cache_creation_input_tokens": None}


@pytest.mark.parametrize("words", [5, 500])
@pytest.mark.parametrize("ended", [{}, {"input_tokens": 0}, {**BEGUN, "cache_creation_input_tokens": 0}])
@pytest.mark.parametrize("cut", [0, 100])
async def test_a_stream_of_messages_is_settled_by_its_first_and_last_event(
    gateway, endpoint, per_month, prompt, left, words, ended, cut
):
    """The prompt is counted in `message_start`, however far behind the end is; the answer in the end."""
    gateway.serve([endpoint], per_month(**LIMITS))
    client = await gateway.connect()
    client.post(prompt(8, stream=True), "/v1/messages")
    call = await endpoint.call()
    begun = STREAM + message_start(**BEGUN, output_tokens=1)
    call.write(begun[: len(STREAM) + cut])
    await asyncio.sleep(0.02)  # what is cut is read in two parts
    call.write(begun[len(STREAM) + cut :] + chunk(WORD) * words + message_end(**ended, output_tokens=words))
    await client.response()
    assert left(gateway) == (680, 1000 - words)


async def test_a_stream_of_messages_that_breaks_off(gateway, endpoint, per_month, prompt, left):
    """The prompt as the engine counted it, as that is known from the beginning, and what came."""
    gateway.serve([endpoint], per_month(**LIMITS))
    client = await gateway.connect()
    client.post(prompt(8, stream=True), "/v1/messages")
    call = await endpoint.call()
    call.write(STREAM + message_start(**BEGUN, output_tokens=1) + chunk(WORD) * 400)
    await client.head()
    call.close()
    await client.rest()
    remaining, produced = left(gateway)
    assert remaining == 680
    assert produced == pytest.approx(600, abs=10)


@pytest.mark.parametrize("is_escaped", [False, True])
@pytest.mark.parametrize(("text", "tokens"), [("\u6c34\u95f8" * 300, 375), ("\U0001f600" * 100, 130)])
async def test_characters_count_however_they_are_written(
    gateway, endpoint, per_month, left, text, tokens, is_escaped
):
    """Escaped by the client, Chinese has six bytes a character, and an emoji twelve; it is no more tokens."""
    gateway.serve([endpoint], per_month(**LIMITS))
    client = await gateway.connect()
    client.post(json.dumps({"model": "m", "prompt": text}, ensure_ascii=is_escaped).encode())
    call = await endpoint.call()
    assert left(gateway)[0] == pytest.approx(1000 - tokens, abs=2)
    call.answer(b"{}")
    await client.response()
