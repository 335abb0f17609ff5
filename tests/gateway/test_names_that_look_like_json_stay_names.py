"""Names from clients are text wherever they are written: bodies, headers, logs, metrics, errors."""

import json

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from headgate import api, routing

NAMES = [
    '{"model":"other"}',
    'm","model":"other',
    '["m"]',
    "null",
    'quote " backslash \\ slash / both \\"',
    "line\r\nx-injected: 1\r\n\r\n",
    "tab\tnull\x00escape\x1b[31mdelete\x7f",
    "separators \u2028\u2029\u0085",
    "\u00e4\U0001f600\ufeff",
    "%s %d {0} ${x} $(y) `z`",
    "a; endpoint=evil; b=c",
    "x" * 1024,
]


def serve(gateway, endpoint, name, served):
    """Routes a model of this name to the endpoint."""
    key = api.ObjectRef("ModelServer", "default", "pool")
    rule = routing.Rule("rule", None, (routing.Target(key, 100),))
    route = routing.Route(
        key=api.ObjectRef("ModelRoute", "default", "route"),
        name="default/route",
        model=name,
        adapters=(),
        rules=(rule,),
        limits=None,
        uid="",
        created="2026-01-01T00:00:00Z",
    )
    made = routing.Endpoint("default/pod", "127.0.0.1", endpoint.port)
    pools = {key: routing.Pool(key=key, endpoints=(made,), model=served)}
    gateway.shell.use(routing.Snapshot(models={name: (route,)}, pools=pools))
    gateway.shell.plane.is_ready = True


def exposed(gateway):
    """The metrics, as a scraper parses them."""
    text = generate_latest(gateway.registry).decode()
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


@pytest.mark.parametrize("padding", [0, 300_000], ids=["small", "large"])
@pytest.mark.parametrize("is_served", [True, False])
@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
async def test_a_name_of_a_model(start_gateway, start_endpoint, name, is_served, padding):
    """It comes to the endpoint and back; or an error names it, and nothing else of the request is lost."""
    endpoint = await start_endpoint(
        behave=lambda call: call.answer(call.body, **{"content-type": "application/json"})
    )
    gateway = await start_gateway(settings={"logging_access_log": "json"})
    serve(gateway, endpoint, name if is_served else "another", served='the "real" \\ one')
    body = json.dumps({"model": name, "user": "u" * padding}).encode()
    client = await gateway.connect()
    client.post(body, headgate_x="1")
    response = await client.response()
    if is_served:
        assert response.status == 200
        assert response.json["model"] == name
        assert endpoint.calls[0].json == {"model": 'the "real" \\ one', "user": "u" * padding}
    else:
        assert response.status == 404
        assert response.json["error"]["code"] == "model_not_found"
    assert not response.header("x-injected")
    client.post({"model": name})
    assert (await client.response()).status == response.status
    await gateway.idle()
    models = {sample.labels["model"] for sample in exposed(gateway) if "model" in sample.labels}
    assert models <= ({name} if is_served else {"unknown"}) | {"other", ""}
    lines = gateway.log_lines()
    assert len(lines) == 2
    for line in lines:
        assert line.isascii()
        assert json.loads(line)["model_name"] == name[:1024]


@pytest.mark.parametrize("name", NAMES[:5], ids=range(5))
async def test_a_name_in_a_form(start_gateway, start_endpoint, name):
    """The endpoint's own name takes its place as it is, without the escapes of JSON."""
    endpoint = await start_endpoint(b"{}")
    gateway = await start_gateway()
    serve(gateway, endpoint, name, served='the "real" \\ one')
    part = '--X\r\ncontent-disposition: form-data; name="model"\r\n\r\n%s\r\n--X--\r\n'
    kind = {"content-type": "multipart/form-data; boundary=X"}
    response = await gateway.ask((part % name).encode(), "/v1/audio/transcriptions", **kind)
    assert response.status == 200
    assert endpoint.calls[0].body == (part % 'the "real" \\ one').encode()


@pytest.mark.parametrize("size", [1025, 100_000, 300_000])
async def test_a_name_that_is_too_long(start_gateway, endpoint, size):
    """It is refused for its length, in bodies of any size."""
    gateway = await start_gateway(endpoint)
    response = await gateway.ask({"model": "m" * size})
    assert response.status == 400
    assert (response.json["error"]["code"], response.json["error"]["param"]) == ("member_too_long", "model")


SURROGATES = [
    b'{"model":"\\ud800"}',
    b'{"model":"m","user":"\\udfff"}',
    b'{"model":"m","messages":[{"role":"user","content":"half a smile: \\ud83d"}]}',
    b'{"model":"m","messages":[{"role":"user","content":"\\ude00\\ud83d"}]}',
    b'{"model":"m","\\ud800":1}',
    b'{"model":"m","tools":[{"\\uD800\\u0041":1}]}',
    b'{"model":"\\ud800\\ud800"}',
]


@pytest.mark.parametrize("padding", [0, 300_000], ids=["small", "large"])
@pytest.mark.parametrize("body", SURROGATES)
async def test_half_a_surrogate_pair(start_gateway, endpoint, body, padding):
    """It ends its own request with an error that names it; the connection and the log go on."""
    endpoint.behave = lambda call: call.answer()
    gateway = await start_gateway(endpoint)
    client = await gateway.connect()
    client.post(b'%b,"x":"%b"}' % (body[:-1], b"a" * padding))
    response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (400, "invalid_json")
    assert "is half of a surrogate pair" in response.json["error"]["message"]
    client.post()
    assert (await client.response()).status == 200
    assert len(gateway.log_lines()) == 2


async def test_bytes_in_headers_and_paths_that_are_no_text(start_gateway, endpoint):
    """What is UTF-8 of half a pair, or no UTF-8 at all, ends neither a connection nor the log."""
    endpoint.behave = lambda call: call.answer()
    gateway = await start_gateway(endpoint, settings={"logging_access_log": "json"})
    client = await gateway.connect()
    odd = b"\xed\xa0\x80\xff"
    for target in (b"/v1/chat/completions", b"/v1/chat/completions?%ED%A0%80"):
        lines = b"x-request-id: %b\r\nuser-agent: %b\r\nx-session-id: %b\r\n" % (odd, odd, odd)
        client.send(
            b'POST %b HTTP/1.1\r\nhost: g\r\n%bcontent-length: 13\r\n\r\n{"model":"m"}' % (target, lines)
        )
        assert (await client.response()).status == 200
    client.send(b"GET /v1/models/%ED%A0%80 HTTP/1.1\r\nhost: g\r\n\r\n")
    assert (await client.response()).status == 404
    await gateway.idle()
    assert all(json.loads(line) for line in gateway.log_lines())
