"""What each of the two endpoints gets for one request, in which order, and what the client sees."""

import asyncio
import json

import pytest


async def test_vllms_engines_are_asked_one_after_the_other(split, chat, handed_over, events):
    """The prompt goes to one, its parameters to the other, whose stream is the client's."""
    some = await split("nixl")
    client = await some.gateway.connect()
    client.post(chat(stream=True, n=1))
    prefill = await some.prefill[0].call()
    assert some.decode[0].calls == []
    assert "stream" not in prefill.json
    assert prefill.json["max_tokens"] == 1
    assert prefill.json["kv_transfer_params"]["do_remote_decode"] is True
    handed_over(prefill)
    decode = await some.decode[0].call()
    assert (decode.json["stream"], decode.json["max_tokens"]) == (True, 20)
    assert decode.json["kv_transfer_params"]["remote_engine_id"] == "e-1"
    decode.write(events.head + events.text(b"a") + events.end)
    response = await client.response()
    assert response.status == 200
    assert b"[DONE]" in response.body
    assert some.decisions("remote") == 1


@pytest.mark.parametrize("connector", ["http", "lmcache"])
async def test_stores_need_no_parameters(split, chat, connector):
    """Whatever the prefill answers, the second request is the client's own."""
    some = await split(connector)
    client = await some.gateway.connect()
    body = chat(n=2)
    client.post(body)
    (await some.prefill[0].call()).answer(b"not json")
    decode = await some.decode[0].call()
    assert decode.json == body
    decode.answer(b"{}")
    assert (await client.response()).body == b"{}"


async def test_sglangs_servers_are_asked_at_once(split, chat, events):
    """The answer flows before the prefill's is there, and both have the same room."""
    some = await split("sglang")
    client = await some.gateway.connect()
    client.post(chat(stream=True))
    prefill, decode = await some.prefill[0].call(), await some.decode[0].call()
    assert prefill.json["bootstrap_room"] == decode.json["bootstrap_room"]
    assert (decode.json["bootstrap_host"], decode.json["bootstrap_port"]) == ("127.0.0.1", 9000)
    decode.write(events.head + events.text(b"a"))
    await client.head()
    assert b'"a"' in await client.reader.readuntil(b"\n\n")
    prefill.answer(b"{}")
    decode.write(events.end)
    assert await client.reader.readuntil(b"0\r\n\r\n")


async def test_both_requests_have_one_identity(split, chat, handed_over):
    """One x-request-id, the client's headers, path and query, and no compression of what is read here."""
    some = await split("nixl")
    client = await some.gateway.connect()
    client.post(chat(), "/v1/chat/completions?a=1", x_request_id="mine", accept_encoding="gzip", x_mine="1")
    prefill = await some.prefill[0].call()
    handed_over(prefill)
    decode = await some.decode[0].call()
    decode.answer(b"{}")
    response = await client.response()
    assert response.header("x-request-id") == "mine"
    for call in (prefill, decode):
        assert (call.target, call.header("x-request-id")) == ("/v1/chat/completions?a=1", "mine")
        assert (call.header("accept-encoding"), call.header("x-mine")) == ("identity", "1")
    assert some.gateway.settled == 1


async def test_the_model_is_renamed_for_both(split, chat, handed_over):
    """And renamed again in the answer."""
    some = await split("nixl", model="served")
    client = await some.gateway.connect()
    client.post(chat())
    prefill = await some.prefill[0].call()
    handed_over(prefill)
    decode = await some.decode[0].call()
    assert prefill.json["model"] == decode.json["model"] == "served"
    decode.answer(b'{"model":"served"}', **{"content-type": "application/json"})
    assert (await client.response()).json == {"model": "m"}


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
async def test_answers_to_a_prefill_may_be_framed_in_any_way(split, chat, framing):
    """With a length, in chunks, or ended by the connection's end, and cut anywhere."""
    some = await split("nixl")
    client = await some.gateway.connect()
    client.post(chat())
    call = await some.prefill[0].call()
    body = json.dumps({"kv_transfer_params": {"x": "y" * 50}}).encode()
    if framing == "length":
        call.answer(body)
    elif framing == "chunked":
        call.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n" + body[:5] + b"\r\n")
        await asyncio.sleep(0)
        call.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body) - 5, body[5:]))
    else:
        call.write(b"HTTP/1.1 200 OK\r\n\r\n" + body)
        call.close()
    decode = await some.decode[0].call()
    assert decode.json["kv_transfer_params"] == {"x": "y" * 50}
    decode.answer(b"{}")
    assert (await client.response()).status == 200


@pytest.mark.parametrize(
    ("remote_tokens", "length", "decision"), [(512, 100, "short"), (512, 4000, "remote"), (0, 100, "remote")]
)
async def test_short_prompts_are_prefilled_where_they_are_decoded(
    split, chat, handed_over, remote_tokens, length, decision
):
    """By the threshold of the ModelServer, or the gateway's own; the reason is counted."""
    some = await split("nixl", remote_tokens=None, settings={"prefill_remote_min_tokens": remote_tokens})
    client = await some.gateway.connect()
    body = chat(messages=[{"role": "user", "content": "x" * length}])
    client.post(body)
    if decision == "remote":
        handed_over(await some.prefill[0].call())
    decode = await some.decode[0].call()
    assert ("kv_transfer_params" in decode.json) is (decision == "remote")
    decode.answer(b"{}")
    assert (await client.response()).status == 200
    assert some.decisions(decision) == 1
    assert some.gateway.metric("headgate_gateway_prefill_decisions_total") == 1


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("/v1/chat/completions", {"n": 2}, "n"),
        ("/v1/chat/completions", {"prompt_logprobs": 1}, "prompt_logprobs"),
        ("/v1/embeddings", {"input": "x"}, "form"),
    ],
)
async def test_what_cannot_be_split_is_served_whole(split, path, body, why):
    """By an endpoint that decodes, with the bytes that the client sent, but for what it may not say."""
    some = await split("nixl")
    client = await some.gateway.connect()
    client.post({"model": "m", **body}, path)
    decode = await some.decode[0].call()
    assert decode.json == {"model": "m", **body}
    decode.answer(b"{}")
    assert (await client.response()).status == 200
    assert some.prefill[0].calls == []
    assert some.decisions(why) == 1


async def test_without_a_group_that_can_prefill_endpoints_serve_alone(split, chat):
    """Visibly."""
    some = await split("nixl", prefill=0)
    client = await some.gateway.connect()
    client.post(chat(kv_transfer_params={"remote_host": "evil"}))
    decode = await some.decode[0].call()
    assert decode.json == chat()
    decode.answer(b"{}")
    assert (await client.response()).status == 200
    assert some.decisions("no_prefill") == 1


async def test_sglangs_endpoints_serve_nothing_alone(split, chat):
    """Without anybody to prefill, the refusal says what is missing."""
    some = await split("sglang", prefill=0)
    response = await some.gateway.ask(chat())
    assert (response.status, response.json["error"]["code"]) == (503, "no_ready_endpoint")
    assert "a prefill and a decode endpoint" in response.json["error"]["message"]
    some = await split("nixl", decode=0)
    response = await some.gateway.ask(chat())
    assert (response.status, response.json["error"]["code"]) == (503, "no_ready_endpoint")
    assert "none of its decoding Pods is ready" in response.json["error"]["message"]


async def test_the_ledger_tells_the_phases_apart(split, chat, handed_over, events, eventually):
    """The prompt is work of the endpoint that prefills it, the answer of the one that decodes."""
    some = await split("nixl")
    client = await some.gateway.connect()
    client.post(chat(stream=True, messages=[{"role": "user", "content": "x" * 4000}]))
    prefill = await some.prefill[0].call()
    prefilling, decoding = some.load(some.prefill[0]), some.load(some.decode[0])
    assert (prefilling.requests, decoding.requests) == (1, 1)
    assert prefilling.prefill_tokens >= 1000
    assert decoding.prefill_tokens == 0
    handed_over(prefill)
    decode = await some.decode[0].call()
    assert (prefilling.requests, decoding.requests) == (0, 1)
    decode.write(events.head + events.text(b"a"))
    await eventually(lambda: decoding.decoding == 1)
    decode.write(events.end)
    await client.response()
    await some.gateway.idle()


async def test_connections_are_kept_for_the_next(split, chat, handed_over):
    """One to each endpoint serves requests that follow one another."""
    some = await split("nixl")
    client = await some.gateway.connect()
    for _ in range(3):
        client.post(chat())
        handed_over(await some.prefill[0].call())
        (await some.decode[0].call()).answer(b"{}")
        assert (await client.response()).status == 200
    assert [len(endpoint.connections) for endpoint in (*some.prefill, *some.decode)] == [1, 1]


async def test_adapters_stay_at_home_in_both_phases(split, chat, handed_over, eventually):
    """Requests for an adapter go where the first one went, although another endpoint has less to do."""
    some = await split("nixl", prefill=2, decode=2)
    for endpoint in some.prefill:
        endpoint.behave = handed_over
    clients = [await some.gateway.connect() for _ in range(3)]
    for number, client in enumerate(clients, 1):
        client.post(chat(model="adapter"))
        await eventually(lambda number=number: sum(len(each.calls) for each in some.decode) == number)
    for endpoints in (some.prefill, some.decode):
        assert sorted(len(each.calls) for each in endpoints) == [0, 3]
    for call in (*some.decode[0].calls, *some.decode[1].calls):
        call.answer(b"{}")
    for client in clients:
        assert (await client.response()).status == 200
