"""The gateway's own errors: in OpenAI's form, or Anthropic's on its path, with the right status."""

import msgspec
import pytest

from headgate import api, routing
from headgate.gateway import refusals
from headgate.kubeschema import regex
from headgate.routing.patterns import RequestPattern, compile_string


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b'{"prompt":"hi"}', "model_missing", "model"),
        (b'{"model":"  "}', "model_missing", "model"),
        (b'{"model":null}', "model_missing", "model"),
        (b'{"model":5}', "invalid_type", "model"),
        (b'{"model":"m","stream":"yes"}', "invalid_type", "stream"),
        (b"[]", "invalid_type", None),
        (b"", "invalid_json", None),
        (b"{", "invalid_json", None),
    ],
)
async def test_body_that_cannot_be_routed(gateway, body, code, param):
    """A body without a usable model is a 400 that names the field (R16, A10), and the connection goes on."""
    client = await gateway.connect()
    for _ in range(2):
        client.post(body)
        response = await client.response()
        assert response.status == 400
        error = response.json["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", code, param)


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "br", "identity, gzip", "unknown"])
@pytest.mark.parametrize(
    "body",
    [b"\x1f\x8b\x08", b'{"model":"m"}', b'{"model":"m","x":"%b"}' % (b"x" * 300_000)],
    ids=["compressed", "JSON", "large JSON"],
)
async def test_an_encoded_body(gateway, endpoint, coding, body):
    """It is rejected even if it looks like JSON, since the endpoint might go by the header."""
    client = await gateway.connect()
    for _ in range(2):
        client.post(body, content_encoding=coding)
        response = await client.response()
        assert (response.status, response.json["error"]["code"]) == (415, "compressed_body")
        assert f"content-encoding '{coding}'" in response.json["error"]["message"]
    client.post(body, connection="content-encoding", content_encoding=coding)
    assert (await client.response()).status == 415
    assert not endpoint.calls


@pytest.mark.parametrize("coding", ["identity", "Identity", ""])
async def test_a_body_encoded_as_nothing(gateway, endpoint, coding):
    """It is read as it is, and sent on without the header."""
    endpoint.behave = lambda call: call.answer(repr(call.header("content-encoding")).encode())
    assert (await gateway.ask(content_encoding=coding)).body == b"None"


async def test_unknown_model(gateway):
    """404 `model_not_found`, with the name and the request's id (R14)."""
    response = await gateway.ask({"model": "gpt-x"})
    assert response.status == 404
    assert response.json["error"]["code"] == "model_not_found"
    assert "'gpt-x'" in response.json["error"]["message"]
    assert response.header("x-request-id")


async def test_a_model_whose_rules_do_not_match(gateway, start_endpoint):
    """404 `model_not_found`: it is served, but not like this; what the rules ask for is not told."""
    endpoint = await start_endpoint(b"{}")
    gateway.serve([endpoint])
    snapshot = gateway.shell.plane.snapshot
    (found,) = snapshot.models["m"]
    gold = compile_string(api.StringMatch(exact="gold-secret"), regex.Budget())
    pattern = RequestPattern(headers=((b"x-tier", gold),))
    strict = msgspec.structs.replace(found, rules=(msgspec.structs.replace(found.rules[0], pattern=pattern),))
    gateway.shell.use(
        msgspec.structs.replace(snapshot, models={"m": (strict,)}, adapters={"adapter": (strict,)})
    )
    for model in ("m", "adapter"):
        response = await gateway.ask({"model": model})
        assert (response.status, response.json["error"]["code"]) == (404, "model_not_found")
        message = response.json["error"]["message"]
        assert f"the model '{model}' is served, but not for this request" in message
        assert "x-tier" not in message
        assert "gold-secret" not in message
    assert (await gateway.ask({"model": "m"}, x_tier="gold-secret")).status == 200


async def test_pool_without_endpoints(gateway):
    """503 with Retry-After, and the ModelServer's name (R20)."""
    gateway.serve([])
    response = await gateway.ask()
    assert (response.status, response.header("retry-after")) == (503, "1")
    assert response.json["error"]["code"] == "no_ready_endpoint"
    assert "default/pool" in response.json["error"]["message"]


async def test_missing_model_server(gateway):
    """A route to a ModelServer that does not exist is a 404 that names both (R20)."""
    snapshot = gateway.shell.plane.snapshot
    gateway.shell.use(routing.Snapshot(models=snapshot.models))
    response = await gateway.ask()
    assert response.status == 404
    assert "default/route" in response.json["error"]["message"]
    assert "default/pool" in response.json["error"]["message"]


async def test_no_target_with_a_weight(gateway):
    """A rule whose weights are all zero serves nobody, and says so."""
    key = api.ObjectRef("ModelRoute", "default", "r")
    rule = routing.Rule("dark", None, (routing.Target(api.ObjectRef("ModelServer", "default", "pool"), 0),))
    route = routing.Route(key=key, name="default/r", model="m", adapters=(), rules=(rule,))
    gateway.shell.use(routing.Snapshot(models={"m": (route,)}))
    response = await gateway.ask()
    assert (response.status, response.json["error"]["code"]) == (503, "no_target")


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [(b"{}", 400, "invalid_request_error"), (b'{"model":"x"}', 404, "not_found_error")],
)
async def test_anthropic_clients_get_their_own_form(gateway, body, status, kind):
    """On /v1/messages, errors look as Anthropic's clients expect."""
    response = await gateway.ask(body, "/v1/messages?beta=true")
    assert response.status == status
    assert set(response.json) == {"type", "error"}
    assert (response.json["type"], response.json["error"]["type"]) == ("error", kind)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, "invalid_request_error") for status in (400, 405, 408, 409, 415, 417, 421, 431)),
        (401, "authentication_error"),
        (402, "billing_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        *((status, "api_error") for status in (500, 501, 502, 505)),
        (503, "overloaded_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_every_status_has_the_type_that_anthropics_api_gives_it(status, kind):
    """Its clients tell errors apart by them, also in a stream, where there is no status."""
    refusal = refusals.Refusal(status=status, type="any", code="any", message="no")
    told = refusals.refused(refusal, b"/v1/messages", keep_alive=True).partition(b"\r\n\r\n")[2]
    assert msgspec.json.decode(told)["error"] == {"type": kind, "message": "no"}
    assert b'"type":"%b"' % kind.encode() in refusals.error_event(refusal, b"/v1/messages")


async def test_anthropic_clients_get_their_own_form_from_limits_and_outages(start_gateway):
    """That holds for what the listener refuses, for other methods, and for 503."""
    gateway = await start_gateway(settings={"clients_max_body_bytes": 10})
    for sent, status, kind in (
        (b"POST /v1/messages HTTP/1.1\r\nhost: g\r\ncontent-length: 11\r\n\r\n", 413, "request_too_large"),
        (b"GET /v1/messages HTTP/1.1\r\nhost: g\r\n\r\n", 405, "invalid_request_error"),
        (
            b"POST /v1/messages HTTP/1.1\r\nhost: g\r\ncontent-length: 2\r\ncontent-encoding: br\r\n\r\n{}",
            415,
            "invalid_request_error",
        ),
    ):
        client = await gateway.connect()
        client.send(sent)
        response = await client.response()
        assert (response.status, response.json["error"]["type"]) == (status, kind)
    gateway.serve([])
    response = await gateway.ask(b"{}", "/v1/messages")
    assert response.status == 400
