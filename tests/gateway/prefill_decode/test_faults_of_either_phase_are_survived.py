"""Faults during prefill and during decode: what is retried, and where."""

import asyncio
import errno

import pytest

from headgate.gateway import prefill as prefill_module

CONNECTORS = ("http", "nixl", "sglang")


def error(status):
    return lambda call: call.answer(b'{"error":"theirs"}', f"{status} Status")


def _break_off(call):
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
    call.reset()


def _oversized(call):
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n{" % (prefill_module.MAX_RESPONSE_BYTES + 1))


def _endless(call):
    call.write(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (prefill_module.MAX_RESPONSE_BYTES + 1))


FAULTS = {
    "prefill_reset": lambda call: call.reset(),
    "prefill_status_503": error(503),
    "prefill_status_500": error(500),
    "prefill_status_302": error(302),
    "prefill_invalid": lambda call: call.write(b"no HTTP at all\r\n\r\n"),
    "prefill_oversized": _oversized,
}


async def served(client, decode, handed=None):
    """The answer of the endpoint that decodes reaches the client."""
    call = await decode.call()
    call.answer(b'{"ok":true}')
    response = await client.response()
    assert (response.status, response.json) == (200, {"ok": True})
    return call


@pytest.mark.parametrize("connector", CONNECTORS)
@pytest.mark.parametrize("reason", FAULTS)
async def test_another_endpoint_of_the_group_prefills(split, chat, handed_over, connector, reason):
    """After any failure; the one that failed is not asked again, and the one that decodes is not to blame."""
    some = await split(connector, prefill=2)
    client = await some.gateway.connect()
    client.post(chat())
    FAULTS[reason](await some.prefill[0].call())
    handed_over(await some.prefill[1].call())
    if connector == "sglang":
        first, second = await some.decode[0].call(), await some.decode[0].call()
        assert first.json["bootstrap_room"] != second.json["bootstrap_room"]
        second.answer(b'{"ok":true}')
        assert (await client.response()).json == {"ok": True}
    else:
        await served(client, some.decode[0])
    assert some.failed(reason) == 1
    assert some.load(some.decode[0]).failures == 0
    assert some.load(some.prefill[0]).failures == 1
    await some.gateway.idle()


@pytest.mark.parametrize("connector", CONNECTORS)
async def test_an_endpoint_that_cannot_be_reached_is_passed_over(split, chat, handed_over, connector):
    """Its port refuses connections."""
    some = await split(connector, prefill=2)
    await some.prefill[0].stop()
    client = await some.gateway.connect()
    client.post(chat())
    prefill = await some.prefill[1].call()
    handed_over(prefill)
    call = await some.decode[0].call()
    while call.json.get("bootstrap_room") != prefill.json.get("bootstrap_room"):
        call = await some.decode[0].call()  # the first attempt's, which may have been under way already
    call.answer(b"{}")
    assert (await client.response()).status == 200
    assert some.failed("prefill_connect") == 1


@pytest.mark.parametrize("connector", CONNECTORS)
async def test_an_endpoint_that_is_silent_is_given_up(split, chat, handed_over, connector):
    """After the timeout of the pool, which is for each phase."""
    some = await split(connector, prefill=2, decode=2, timeout_s=60)
    timers = some.gateway.timers
    client = await some.gateway.connect()
    client.post(chat())
    await some.prefill[0].call()
    timers.end(60)
    handed_over(await some.prefill[1].call())
    await served(client, some.decode[1 if connector == "sglang" else 0])
    assert some.failed("prefill_timeout") == 1


@pytest.mark.parametrize("reason", ["prefill_reset", "prefill_status_503"])
async def test_without_another_the_endpoint_that_decodes_does_it_all(split, chat, reason):
    """Visibly: the decision says that nobody was left to prefill."""
    some = await split("nixl")
    client = await some.gateway.connect()
    client.post(chat())
    FAULTS[reason](await some.prefill[0].call())
    call = await served(client, some.decode[0])
    assert "kv_transfer_params" not in call.json
    assert some.decisions("no_prefill") == 1


@pytest.mark.parametrize(
    ("reason", "status", "code"),
    [("prefill_reset", 502, "upstream_failed"), ("prefill_status_503", 502, "upstream_failed")],
)
@pytest.mark.parametrize("connector", ["nixl", "sglang"])
async def test_the_attempts_of_the_pool_are_for_both_phases(split, chat, connector, reason, status, code):
    """Where none is left, the client is told what happened."""
    some = await split(connector, prefill=2, attempts=0)
    client = await some.gateway.connect()
    client.post(chat())
    FAULTS[reason](await some.prefill[0].call())
    response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (status, code)
    assert some.prefill[1].calls == []
    await some.gateway.idle()


async def test_sglang_without_another_pair_is_refused(split, chat):
    """Nobody can serve it alone."""
    some = await split("sglang")
    client = await some.gateway.connect()
    client.post(chat())
    await some.decode[0].call()
    FAULTS["prefill_reset"](await some.prefill[0].call())
    response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (502, "upstream_failed")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"kv_transfer_params":', b"\xff", b'{"usage":{"cache_read_input_tokens":-1}}']
)
async def test_answers_that_cannot_be_read_are_failures(split, chat, handed_over, body):
    """Where they have to say where the cache is."""
    some = await split("nixl", prefill=2)
    client = await some.gateway.connect()
    client.post(chat())
    (await some.prefill[0].call()).answer(body)
    handed_over(await some.prefill[1].call())
    call = await served(client, some.decode[0])
    assert "kv_transfer_params" in call.json
    assert some.failed("prefill_invalid") == 1


async def test_answers_without_an_end_are_bounded(split, chat, handed_over):
    """So many bytes are read, and no more."""
    some = await split("nixl", prefill=2)
    client = await some.gateway.connect()
    client.post(chat())
    _endless(await some.prefill[0].call())
    handed_over(await some.prefill[1].call())
    await served(client, some.decode[0])
    assert some.failed("prefill_oversized") == 1


@pytest.mark.parametrize("params", [None, [], "x"])
async def test_without_parameters_the_endpoint_that_decodes_prefills(split, chat, handed_over, params):
    """An engine says nothing where it kept nothing, as for a prompt that ends at its first token."""
    some = await split("mooncake")
    client = await some.gateway.connect()
    client.post(chat(messages=[{"role": "user", "content": "x" * 4000}]))
    handed_over(await some.prefill[0].call(), params=params)
    decode = await some.decode[0].call()
    assert "kv_transfer_params" not in decode.json
    assert some.load(some.decode[0]).prefill_tokens >= 1000
    decode.answer(b"{}")
    assert (await client.response()).status == 200
    assert some.decisions("not_handed_over") == 1


@pytest.mark.parametrize("connector", ["http", "nixl"])
async def test_what_is_wrong_with_a_request_the_client_is_told_by_the_engine(split, chat, connector):
    """The endpoint that decodes gets the client's own request, and has the last word."""
    some = await split(connector)
    client = await some.gateway.connect()
    client.post(chat(n=1))
    error(400)(await some.prefill[0].call())
    decode = await some.decode[0].call()
    assert decode.json == chat(n=1)
    decode.answer(b'{"error":"too long"}', "400 Bad Request")
    response = await client.response()
    assert (response.status, response.body) == (400, b'{"error":"too long"}')
    assert some.decisions("prefill_status_400") == 1
    assert some.load(some.prefill[0]).failures == 0


async def test_sglangs_own_error_reaches_the_client(split, chat):
    """Its partner would wait for nothing."""
    some = await split("sglang")
    client = await some.gateway.connect()
    client.post(chat())
    decode = await some.decode[0].call()
    (await some.prefill[0].call()).answer(b'{"error":"too long"}', "400 Bad Request")
    response = await client.response()
    assert (response.status, response.body) == (400, b'{"error":"too long"}')
    async with asyncio.timeout(60):
        await some.decode[0].connections[0].lost
    assert decode is not None
    await some.gateway.idle()


async def test_what_was_not_fetched_is_decoded_elsewhere(split, chat, handed_over):
    """An endpoint that cannot be reached has fetched nothing: the prompt is not prefilled again."""
    some = await split("nixl", decode=2)
    await some.decode[0].stop()
    client = await some.gateway.connect()
    client.post(chat())
    handed_over(await some.prefill[0].call())
    call = await served(client, some.decode[1])
    assert call.json["kv_transfer_params"]["remote_engine_id"] == "e-1"
    assert len(some.prefill[0].calls) == 1
    assert some.failed("connect") == 1


@pytest.mark.parametrize(
    ("connector", "prefills"), [("http", 1), ("lmcache", 1), ("nixl", 2), ("mooncake", 2)]
)
@pytest.mark.parametrize("fault", [lambda call: call.reset(), error(503)])
async def test_what_may_have_been_fetched(split, chat, handed_over, connector, prefills, fault):
    """Blocks that were read once may have other contents: they are prefilled again; a store keeps them."""
    some = await split(connector, decode=2)
    some.prefill[0].behave = handed_over
    client = await some.gateway.connect()
    client.post(chat())
    fault(await some.decode[0].call())
    await served(client, some.decode[1])
    assert len(some.prefill[0].calls) == prefills


async def test_sglang_meets_in_a_new_room_after_its_decode_failed(split, chat):
    """Both are asked anew, and the first prefill is stopped."""
    some = await split("sglang", decode=2)
    client = await some.gateway.connect()
    client.post(chat())
    first = await some.prefill[0].call()
    (await some.decode[0].call()).reset()
    second = await some.prefill[0].call()
    assert first.json["bootstrap_room"] != second.json["bootstrap_room"]
    async with asyncio.timeout(60):
        await some.prefill[0].connections[0].lost
    second.answer(b"{}")
    call = await served(client, some.decode[1])
    assert call.json["bootstrap_room"] == second.json["bootstrap_room"]


async def test_an_answer_that_broke_before_its_first_byte_is_asked_for_again(split, chat, events):
    """SGLang sends the head of a stream at once: of the answer itself the client has nothing yet."""
    some = await split("sglang", decode=2, prefill=2)
    client = await some.gateway.connect()
    client.post(chat(stream=True))
    first = await some.decode[0].call()
    first.write(events.head)
    await asyncio.sleep(0.01)
    first.reset()
    second = await some.decode[1].call()
    second.write(events.head + events.text(b"second") + events.end)
    response = await client.response()
    assert (response.status, response.body.count(b"second")) == (200, 1)
    assert some.gateway.settled == 1


async def test_a_prefill_that_fails_before_the_first_byte_starts_anew(split, chat, events):
    """The decode endpoint's head is taken back."""
    some = await split("sglang", decode=1, prefill=2)
    client = await some.gateway.connect()
    client.post(chat(stream=True))
    (await some.decode[0].call()).write(events.head)
    await asyncio.sleep(0.01)
    error(500)(await some.prefill[0].call())
    second = await some.decode[0].call()
    second.write(events.head + events.text(b"second") + events.end)
    response = await client.response()
    assert (response.status, response.body.count(b"second")) == (200, 1)


@pytest.mark.parametrize("connector", CONNECTORS)
async def test_after_the_first_byte_nothing_is_asked_again(split, chat, handed_over, events, connector):
    """A stream that breaks ends with an event that says so; no other answer is appended to it."""
    some = await split(connector, prefill=2, decode=2)
    for endpoint in some.prefill:
        endpoint.behave = handed_over
    client = await some.gateway.connect()
    client.post(chat(stream=True))
    decode = await some.decode[0].call()
    decode.write(events.head + events.text(b"begun"))
    await client.head()
    await client.reader.readuntil(b"\n\n\r\n")
    decode.reset()
    rest = await client.rest()
    assert b"upstream_lost" in rest
    assert rest.endswith(b"0\r\n\r\n")
    assert some.decode[1].calls == []


async def test_a_prefill_that_fails_amid_the_answer_is_no_success(split, chat, events):
    """The stream ends with an error, although its endpoint goes on."""
    some = await split("sglang", prefill=2, decode=2)
    client = await some.gateway.connect()
    client.post(chat(stream=True))
    prefill, decode = await some.prefill[0].call(), await some.decode[0].call()
    decode.write(events.head + events.text(b"begun"))
    await client.head()
    await client.reader.readuntil(b"\n\n\r\n")
    prefill.reset()
    rest = await client.rest()
    assert b"prefill_failed" in rest
    assert b"[DONE]" not in rest
    async with asyncio.timeout(60):
        await some.decode[0].connections[0].lost
    assert some.load(some.decode[0]).failures == 0
    assert some.decode[1].calls == []
    await some.gateway.idle()
    assert some.gateway.metric("headgate_gateway_requests_total", outcome="prefill_failed") == 1
    assert "outcome=prefill_failed" in (line := some.gateway.log_lines()[0])
    assert "origin=upstream" in line


async def test_a_shortage_of_the_gateway_amid_the_answer_ends_the_stream(split, chat, events, monkeypatch):
    """The connection on which the prompt was to be prefilled crossed with its end, and no other can be made:
    the client has a head and a part of an answer already, and gets no second head."""
    some = await split("sglang")
    client = await some.gateway.connect()
    client.post(chat())
    (await some.prefill[0].call()).answer(b"{}")
    (await some.decode[0].call()).answer(b"{}")
    await client.response()
    client.post(chat(stream=True))
    prefill, decode = await some.prefill[0].call(), await some.decode[0].call()
    decode.write(events.head + events.text(b"begun"))
    await client.head()
    await client.reader.readuntil(b"\n\n\r\n")

    async def fail(*_, **__):
        raise OSError(errno.EMFILE, "shortage")

    with monkeypatch.context() as patch:
        patch.setattr(some.gateway.shell.services.loop, "create_connection", fail)
        prefill.close()
        rest = await client.rest()
    assert b"HTTP/1.1" not in rest
    assert b"gateway_exhausted" in rest
    await some.gateway.idle()


async def test_an_endpoint_that_refuses_connections_holds_nothing(split, chat, handed_over):
    """Whoever was to prefill there is told so, and what was believed of its cache is forgotten."""
    some = await split("nixl", prefill=2)
    gone = some.load(some.prefill[0])
    some.gateway.shell.plane.prefixes.add([1, 2, 3], gone, some.gateway.shell.now())
    await some.prefill[0].stop()
    client = await some.gateway.connect()
    client.post(chat())
    handed_over(await some.prefill[1].call())
    await served(client, some.decode[0])
    assert some.gateway.shell.plane.prefixes.blocks(gone) == 0


@pytest.mark.parametrize("connector", CONNECTORS)
async def test_a_client_that_leaves_stops_the_prefill(split, chat, connector):
    """And whatever else was begun for it."""
    some = await split(connector)
    client = await some.gateway.connect()
    client.post(chat())
    await some.prefill[0].call()
    if connector == "sglang":
        await some.decode[0].call()
    client.close()
    async with asyncio.timeout(60):
        await some.prefill[0].connections[0].lost
        if connector == "sglang":
            await some.decode[0].connections[0].lost
    await some.gateway.idle()
    assert some.gateway.metric("headgate_gateway_requests_total", outcome="client_gone") == 1
    if connector != "sglang":
        assert some.decode[0].calls == []


@pytest.mark.parametrize("connector", CONNECTORS)
async def test_a_client_that_leaves_stops_the_decode(split, chat, handed_over, events, connector):
    """Amid its answer."""
    some = await split(connector)
    some.prefill[0].behave = handed_over
    client = await some.gateway.connect()
    client.post(chat(stream=True))
    (await some.decode[0].call()).write(events.head + events.text(b"a"))
    await client.head()
    client.close()
    async with asyncio.timeout(60):
        await some.decode[0].connections[0].lost
    await some.gateway.idle()


async def test_an_endpoint_that_leaves_meanwhile_is_not_asked(split, chat, handed_over):
    """What was prefilled is decoded by another of the group, at no cost of an attempt."""
    some = await split("nixl", decode=2, attempts=0)
    client = await some.gateway.connect()
    client.post(chat())
    prefill = await some.prefill[0].call()
    some.use(decode=[some.decode[1]])
    handed_over(prefill)
    call = await served(client, some.decode[1])
    assert call.json["kv_transfer_params"]["remote_engine_id"] == "e-1"
    assert (some.decode[0].calls, len(some.prefill[0].calls)) == ([], 1)
    await some.gateway.idle()


async def test_a_prefill_endpoint_that_leaves_ends_what_it_began(split, chat, handed_over):
    """Requests under way go on with the endpoints that they have."""
    some = await split("nixl", prefill=2)
    client = await some.gateway.connect()
    client.post(chat())
    prefill = await some.prefill[0].call()
    some.use(prefill=[some.prefill[1]])
    handed_over(prefill)
    await served(client, some.decode[0])
    assert some.prefill[1].calls == []
    await some.gateway.idle()


async def test_a_pool_that_is_split_no_more_serves_whole_requests(split, chat):
    """From the next attempt on."""
    some = await split("nixl")
    client = await some.gateway.connect()
    client.post(chat())
    prefill = await some.prefill[0].call()
    some.gateway.serve(some.decode)
    prefill.reset()
    call = await served(client, some.decode[0])
    assert call.json == chat()
    assert some.decisions("not_split") == 1


async def test_an_idle_connection_that_crossed_with_its_end_is_no_failure(split, chat, handed_over):
    """The same endpoint gets the prompt once more, on a new connection."""
    some = await split("nixl")
    client = await some.gateway.connect()
    client.post(chat())
    handed_over(await some.prefill[0].call())
    await served(client, some.decode[0])
    client.post(chat())
    (await some.prefill[0].call()).reset()
    handed_over(await some.prefill[0].call())
    await served(client, some.decode[0])
    assert some.load(some.prefill[0]).failures == 0


async def test_a_group_whose_prefill_fails_again_and_again_is_left_out(split, chat, handed_over):
    """After five failures in a row its endpoint is ejected, and the other group gets the prompts."""
    some = await split(
        "nixl", prefill=2, decode=2, groups=2, attempts=1, settings={"endpoints_ejection_failures": 2}
    )
    some.prefill[0].behave = error(503)
    some.prefill[1].behave = handed_over
    for endpoint in some.decode:
        endpoint.behave = lambda call: call.answer(b"{}")
    for _ in range(8):
        assert (await some.gateway.ask(chat())).status == 200
    assert len(some.prefill[0].calls) == 2
    assert some.decisions("no_prefill") == 0


def answer_soon(call):
    """Unless the request was taken back by then."""
    loop = asyncio.get_running_loop()
    loop.call_later(0.02, lambda: call.transport.is_closing() or call.answer(b"{}"))


@pytest.mark.parametrize("status", [401, 403, 429])
@pytest.mark.parametrize("connector", CONNECTORS)
async def test_a_rejection_by_the_endpoint_that_prefills(split, chat, handed_over, connector, status):
    """Whoever serves the request then shows that it was the endpoint's own fault."""
    some = await split(connector, prefill=2)
    some.prefill[0].behave, some.prefill[1].behave = error(status), handed_over
    for endpoint in some.decode:
        endpoint.behave = answer_soon
    assert (await some.gateway.ask(chat())).status == 200
    assert some.load(some.prefill[0]).failures == 1
    assert some.load(some.decode[0]).failures == 0
    assert some.failed(f"prefill_status_{status}") == 1


@pytest.mark.parametrize("connector", CONNECTORS)
async def test_a_rejection_by_all(split, chat, connector):
    """Nobody is to blame, and the client gets it."""
    some = await split(connector, prefill=2)
    for endpoint in (*some.prefill, *some.decode):
        endpoint.behave = error(401)
    response = await some.gateway.ask(chat())
    assert (response.status, response.json) == (401, {"error": "theirs"})
    assert [some.load(endpoint).failures for endpoint in (*some.prefill, *some.decode)] == [0] * 3
    await some.gateway.idle()


@pytest.mark.parametrize(
    ("connector", "status"), [("http", 500), ("nixl", 500), ("nixl", 503), ("sglang", 500)]
)
async def test_a_failure_of_all(split, chat, connector, status):
    """A request that every endpoint answers with the same error takes nobody out, however often it comes."""
    some = await split(connector, prefill=2)
    for endpoint in (*some.prefill, *some.decode):
        endpoint.behave = error(status)
    for _ in range(6):
        assert (await some.gateway.ask(chat())).status in (status, 502)
    assert [some.load(endpoint).failures for endpoint in (*some.prefill, *some.decode)] == [0] * 3
    await some.gateway.idle()


async def test_a_failure_is_counted_as_soon_as_another_has_prefilled(split, chat, handed_over):
    """However long the answer takes then."""
    some = await split("nixl", prefill=2)
    some.prefill[0].behave = error(500)
    client = await some.gateway.connect()
    client.post(chat())
    prefill = await some.prefill[1].call()
    assert some.load(some.prefill[0]).failures == 0
    assert some.load(some.prefill[0]).avoided(some.gateway.shell.now())
    handed_over(prefill)
    await some.decode[0].call()
    assert some.load(some.prefill[0]).failures == 1
    assert list(some.load(some.prefill[0]).reasons) == ["prefill_status_500"]


async def test_the_head_of_a_stream_tells_nothing_of_its_prefill(split, chat, events):
    """SGLang sends it before the prompt is prefilled."""
    some = await split("sglang", prefill=3, attempts=1)
    for endpoint in some.prefill:
        endpoint.behave = error(500)
    some.decode[0].behave = lambda call: call.write(events.head)
    response = await some.gateway.ask(chat(stream=True))
    assert response.status == 502
    assert [some.load(endpoint).failures for endpoint in some.prefill] == [0] * 3
    await some.gateway.idle()


@pytest.mark.parametrize("connector", CONNECTORS)
@pytest.mark.parametrize("status", [429, 503])
async def test_an_endpoint_that_prefills_may_rest(split, chat, handed_over, connector, status):
    """Another prefills until it is back, and it has not failed."""
    some = await split(connector, prefill=2)
    some.prefill[0].behave = lambda call: call.answer(b"", f"{status} Busy", **{"retry-after": "20"})
    some.prefill[1].behave = handed_over
    for endpoint in some.decode:
        endpoint.behave = answer_soon
    for _ in range(3):
        assert (await some.gateway.ask(chat())).status == 200
    assert len(some.prefill[0].calls) == 1
    assert some.load(some.prefill[0]).failures == 0
