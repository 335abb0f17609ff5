"""CORS: pages of other origins are blocked unless allowed; the gateway responds to preflights itself."""

import pytest

from headgate.gateway import GatewaySettings
from headgate.gateway.settings import conflicts

APP = "https://app.example"
ALLOWED = {"cors_origins": (APP, "http://localhost:3000")}


def _cors(response) -> dict[str, str]:
    prefix = "access-control-"
    named = {name: value for name, value in response.headers if name.startswith(prefix) or name == "vary"}
    return {name.removeprefix(prefix): value for name, value in named.items()}


async def _preflight(gateway, origin=APP, method="POST", headers="authorization, x-stainless-os"):
    client = await gateway.connect()
    client.send(
        f"OPTIONS /v1/chat/completions HTTP/1.1\r\nhost: g\r\norigin: {origin}\r\n"
        f"access-control-request-method: {method}\r\n"
        f"access-control-request-headers: {headers}\r\n\r\n".encode()
    )
    return await client.response()


async def test_off_by_default(gateway, endpoint):
    """No header allows anything, and what an endpoint says of origins is its own business."""
    preflight = await _preflight(gateway)
    assert (preflight.status, _cors(preflight)) == (204, {})
    endpoint.behave = lambda call: call.answer(**{"access-control-allow-origin": "*"})
    assert _cors(await gateway.ask(Origin=APP)) == {"allow-origin": "*"}


async def test_preflight_of_an_allowed_origin(start_gateway, endpoint):
    """Says which methods and headers may be used, and how long: all that are asked for, if none is set."""
    gateway = await start_gateway(endpoint, settings=ALLOWED)
    preflight = await _preflight(gateway)
    assert (preflight.status, preflight.header("content-length")) == (204, None)
    assert _cors(preflight) == {
        "allow-origin": APP,
        "allow-methods": "GET, POST",
        "allow-headers": "authorization, x-stainless-os",
        "max-age": "600",
        "vary": "origin",
    }
    assert endpoint.calls == []


async def test_headers_that_are_set(start_gateway, endpoint):
    """With a list of headers, that list is told, whatever is asked for."""
    gateway = await start_gateway(endpoint, settings=ALLOWED | {"cors_headers": ("authorization",)})
    assert _cors(await _preflight(gateway))["allow-headers"] == "authorization"


@pytest.mark.parametrize("asked", ["", "a b", "a,,b", "a" * 3000, "a;q=1"])
async def test_headers_that_are_none_are_not_repeated(start_gateway, endpoint, asked):
    """What is no list of names, or a long one, is not allowed and not sent back."""
    gateway = await start_gateway(endpoint, settings=ALLOWED)
    preflight = await _preflight(gateway, headers=asked)
    assert preflight.header("access-control-allow-headers") is None


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", f"{APP}.evil", f"{APP}:444", "http://app.example"]
)
async def test_other_origins(start_gateway, endpoint, origin):
    """Nothing is allowed to them: a request without a preflight is served, but its page cannot read it."""
    endpoint.behave = lambda call: call.answer(**{"access-control-allow-origin": "*", "vary": "x"})
    gateway = await start_gateway(endpoint, settings=ALLOWED)
    assert _cors(await _preflight(gateway, origin)) == {"vary": "origin"}
    assert "allow-origin" not in _cors(await gateway.ask(Origin=origin))


async def test_answers_to_an_allowed_origin(start_gateway, endpoint):
    """The gateway's word stands instead of the endpoint's; its own answers and refusals have it too."""
    endpoint.behave = lambda call: call.answer(**{"access-control-allow-origin": "https://evil.example"})
    gateway = await start_gateway(endpoint, settings=ALLOWED | {"clients_max_body_bytes": 2000})
    expected = {"allow-origin": APP, "expose-headers": "*", "vary": "origin"}
    assert _cors(await gateway.ask(Origin=APP)) == expected
    assert _cors(await gateway.ask({"model": "unknown"}, Origin=APP)) == expected
    assert _cors(await gateway.ask(b"x" * 3000, Origin=APP)) == expected
    client = await gateway.connect()
    client.send(f"GET /v1/models HTTP/1.1\r\nhost: g\r\norigin: {APP}\r\n\r\n".encode())
    assert _cors(await client.response()) == expected


async def test_answers_without_an_origin_are_not_for_every_origin(start_gateway, endpoint):
    """A cache that keeps them must ask again for a page."""
    endpoint.behave = lambda call: call.answer()
    gateway = await start_gateway(endpoint, settings=ALLOWED)
    assert _cors(await gateway.ask()) == {"vary": "origin"}


async def test_origin_of_one_request_is_not_that_of_the_next(start_gateway, endpoint):
    """On one connection, each answer is for the origin of its own request."""
    endpoint.behave = lambda call: call.answer()
    gateway = await start_gateway(endpoint, settings=ALLOWED)
    client = await gateway.connect()
    for headers, allowed in (({"Origin": APP}, APP), ({}, None), ({"Origin": "http://localhost:3000"}, None)):
        client.post(**headers)
        response = await client.response()
        assert response.header("access-control-allow-origin") == (allowed or headers.get("Origin"))


async def test_every_origin(start_gateway, endpoint):
    """With "*", any page may ask, without credentials."""
    endpoint.behave = lambda call: call.answer()
    gateway = await start_gateway(endpoint, settings={"cors_origins": ("*",)})
    assert _cors(await gateway.ask(Origin=APP)) == {"allow-origin": "*", "expose-headers": "*"}
    assert _cors(await _preflight(gateway))["allow-origin"] == "*"


async def test_credentials(start_gateway, endpoint):
    """Allowed for named origins, with named headers: browsers take no "*" then."""
    endpoint.behave = lambda call: call.answer()
    gateway = await start_gateway(endpoint, settings=ALLOWED | {"cors_credentials": True})
    told = _cors(await gateway.ask(Origin=APP))
    assert (told["allow-origin"], told["allow-credentials"]) == (APP, "true")
    exposed = told["expose-headers"].split(", ")
    assert "*" not in exposed
    assert {"retry-after", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-requests"} <= set(exposed)
    assert _cors(await _preflight(gateway))["allow-credentials"] == "true"


def test_settings_that_browsers_would_not_take():
    """All that is wrong is said at the start: paths in origins, "*" with credentials, names that are none."""
    settings = GatewaySettings().replace(
        cors_origins=("https://a.example/", "a.example", "*", APP),
        cors_credentials=True,
        cors_methods=("GET", "PO ST"),
        cors_headers=("x:y",),
    )
    found = conflicts(settings)
    assert [name for name, _ in found] == ["cors.origins"] * 3 + ["cors.methods", "cors.headers"]
    assert "without a path" in found[0][1]
    assert "name the origins" in found[2][1]
