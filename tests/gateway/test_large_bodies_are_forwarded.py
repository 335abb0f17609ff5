"""Bodies that are too large for the event loop reach endpoints like small ones."""

import json

import pytest

from headgate import routing
from headgate.requests.bodies import large

TEXT = "It was the best of times, it was the worst of times. " * 20_000


def chat(**members):
    return json.dumps(
        {"n": 1, "model": "m", "messages": [{"role": "user", "content": TEXT}], **members}
    ).encode()


def test_these_bodies_are_large():
    """Or the tests below would say nothing."""
    assert len(chat()) > 2 * large.LARGE_BYTES


@pytest.mark.parametrize("served", [None, 'org/"new" \\ \u00e9'])
async def test_nothing_else_changes(start_gateway, start_endpoint, served):
    """The model's name and the options of a stream are changed where that is needed, and no other byte."""
    endpoint = await start_endpoint(b"{}")
    gateway = await start_gateway(endpoint, model=served)
    options = {"stream": True, "stream_options": {"a": 1}}
    for body, merged in (
        (chat(), None),
        (chat(**options, seed=5), {**options["stream_options"], "include_usage": True}),
        (chat(stream=True), {"include_usage": True}),
        (b'{"model":"x","model":"y","mod\\u0065l" : "m" ,' + chat()[1:].replace(b'"model"', b'"user"'), None),
    ):
        assert (await gateway.ask(body)).status == 200
        expected = {**json.loads(body), "model": served or "m"}
        if merged is not None:
            expected["stream_options"] = merged
        sent = endpoint.calls[-1].body
        assert json.loads(sent) == expected
        if served is None and merged is None:
            assert sent == body
    await gateway.idle()


async def test_a_large_form(start_gateway, start_endpoint):
    """Its part `model` changes, and its file does not."""
    endpoint = await start_endpoint(b"{}")
    gateway = await start_gateway(endpoint, model="served")
    line = b'--X\r\ncontent-disposition: form-data; name="%b"\r\n\r\n%b\r\n'
    body = line % (b"file", TEXT.encode()) + line % (b"model", b"m") + b"--X--\r\n"
    kind = {"content-type": "multipart/form-data; boundary=X"}
    response = await gateway.ask(body, "/v1/audio/transcriptions", **kind)
    assert response.status == 200
    assert endpoint.calls[0].body == body.replace(b"\r\nm\r\n", b"\r\nserved\r\n")


async def test_another_endpoint_gets_all_of_it(start_gateway, start_endpoint):
    """An endpoint fails before it answers; the next one is sent the same."""
    failing = await start_endpoint(behave=lambda call: call.reset())
    working = await start_endpoint(b"{}")
    gateway = await start_gateway(failing, working, model="served")
    assert (await gateway.ask(chat())).status == 200
    assert failing.calls[0].body == working.calls[0].body
    assert json.loads(working.calls[0].body)["model"] == "served"


async def test_a_client_that_leaves_while_its_body_is_read(start_gateway, start_endpoint, eventually):
    """Its request is settled once, and sent to nobody."""
    endpoint = await start_endpoint(b"{}")
    gateway = await start_gateway(endpoint)
    begun = []
    begin = gateway.shell.services.large_bodies.begin

    def begin_later(*args):
        begun.append(begin(*args))
        return begun[-1]

    gateway.shell.services.large_bodies.begin = begin_later
    client = await gateway.connect()
    client.post(b'{"model":"m","x":[' + b"1," * 10_000_000 + b"1]}")
    await eventually(lambda: begun)
    client.close()
    await eventually(lambda: gateway.settled == 1)
    assert gateway.metric("headgate_gateway_requests_total", outcome="client_gone") == 1
    assert (await gateway.ask()).status == 200
    assert len(endpoint.calls) == 1


async def test_requests_sent_ahead_keep_their_order(start_gateway, start_endpoint):
    """A small request behind a large one is answered after it."""
    endpoint = await start_endpoint(behave=lambda call: call.answer(b"%d" % len(call.body)))
    gateway = await start_gateway(endpoint)
    client = await gateway.connect()
    small = b'{"model":"m"}'
    client.post(chat())
    client.post(small)
    lengths = [int((await client.response()).body) for _ in range(2)]
    assert lengths == [len(chat()), len(small)]


async def test_a_body_in_tiny_chunks(start_gateway, start_endpoint):
    """It is put together as it was sent."""
    endpoint = await start_endpoint(b"{}")
    gateway = await start_gateway(endpoint)
    client = await gateway.connect()
    body = chat()
    chunks = b"".join(b"7\r\n%b\r\n" % body[at : at + 7] for at in range(0, len(body) // 7 * 7, 7))
    rest = body[len(body) // 7 * 7 :]
    chunks += b"%x\r\n%b\r\n" % (len(rest), rest) if rest else b""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n"
    client.send(head + chunks + b"0\r\n\r\n")
    assert (await client.response()).status == 200
    assert endpoint.calls[0].body == body


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"model":"m","x":"%b"' % (b"a" * 300_000), "invalid_json"),
        (b'{"model":"m","x":"%b\\ud800"}' % (b"a" * 300_000), "invalid_json"),
        (b'{"model":"%b"}' % (b"a" * 300_000), "member_too_long"),
        (b'{"x":"%b"}' % (b"a" * 300_000), "model_missing"),
        (b'{"model":"x","x":"%b"}' % (b"a" * 300_000), "model_not_found"),
    ],
)
async def test_a_refusal_leaves_the_connection_open(start_gateway, endpoint, body, code):
    """The error says why, and the client's next request is served."""
    gateway = await start_gateway(endpoint)
    endpoint.behave = lambda call: call.answer()
    client = await gateway.connect()
    client.post(body)
    response = await client.response()
    assert response.json["error"]["code"] == code
    client.post()
    assert (await client.response()).status == 200
    assert gateway.metric("headgate_gateway_requests_total", outcome=code) == 1


async def test_prefill_and_decode_apart(start_gateway, start_endpoint):
    """Both endpoints get the prompt, and the members that are theirs."""

    prefill, decode = await start_endpoint(), await start_endpoint(b"{}")
    prefill.behave = lambda call: call.answer(b'{"kv_transfer_params":{"remote_engine_id":"e"}}')
    gateway = await start_gateway()
    roles = {
        routing.Endpoint(f"default/pod-{place}", "127.0.0.1", endpoint.port): routing.Role(
            prefills=place == 0, decodes=place == 1, group="g", bootstrap_port=9000
        )
        for place, endpoint in enumerate((prefill, decode))
    }
    phases = routing.PrefillDecode(connector="nixl", roles=roles, remote_tokens=0)
    gateway.serve([prefill, decode], phases=phases, model="served")
    body = chat(stream=True, max_tokens=20, kv_transfer_params={"a": 1}, user="u", seed=7)
    assert (await gateway.ask(body)).status == 200
    asked, answered = json.loads(prefill.calls[0].body), json.loads(decode.calls[0].body)
    for sent in (asked, answered):
        assert (sent["model"], sent["user"], sent["seed"]) == ("served", "u", 7)
        assert sent["messages"][0]["content"] == TEXT
    assert (asked["max_tokens"], "stream" in asked) == (1, False)
    assert asked["kv_transfer_params"]["do_remote_decode"] is True
    assert (answered["max_tokens"], answered["stream"]) == (20, True)
    assert answered["kv_transfer_params"] == {"remote_engine_id": "e"}
