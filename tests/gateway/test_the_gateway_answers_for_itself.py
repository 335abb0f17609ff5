"""Health, readiness and the list of models need no endpoint."""

import msgspec
import pytest


async def _get(gateway, path, method="GET"):
    client = await gateway.connect()
    client.send(f"{method} {path} HTTP/1.1\r\nhost: g\r\n\r\n".encode())
    return await client.response(has_body=method != "HEAD")


async def test_list_of_models(gateway):
    """Every model and adapter that has a route, sorted, in OpenAI's form (R19)."""
    response = await _get(gateway, "/v1/models")
    assert response.json == {
        "object": "list",
        "data": [
            {"id": name, "object": "model", "created": 1767225600, "owned_by": "headgate"}
            for name in ("adapter", "m")
        ],
    }


@pytest.mark.parametrize("path", ["/v1/models/org/name", "/v1/models/org%2Fname", "/models/org/name"])
async def test_one_model(gateway, path):
    """A model is found by its name, slashes escaped or not."""
    (route,) = gateway.proxy.snapshot.models["m"]
    route = msgspec.structs.replace(route, model="org/name")
    gateway.proxy.use(msgspec.structs.replace(gateway.proxy.snapshot, models={"org/name": (route,)}))
    assert (await _get(gateway, path)).json["id"] == "org/name"


@pytest.mark.parametrize(
    ("path", "code"), [("/v1/models/x", "model_not_found"), ("/v1/modelsx", "not_found"), ("/", "not_found")]
)
async def test_nothing_there(gateway, path, code):
    """404, and the code tells a wrong model from a wrong path."""
    response = await _get(gateway, path)
    assert (response.status, response.json["error"]["code"]) == (404, code)


async def test_a_request_that_is_not_posted_is_told_to_be(gateway):
    """The path of inference is right, the method is not."""
    response = await _get(gateway, "/v1/chat/completions")
    told = "there is nothing to get at /v1/chat/completions: inference requests are POST, "
    assert response.json["error"]["message"].startswith(told)


@pytest.mark.parametrize("path", ["/readyz", "/health"])
async def test_readiness(start_gateway, endpoint, path):
    """Not ready until there is a snapshot, nor while draining; alive in any case."""
    gateway = await start_gateway()
    assert (await _get(gateway, path)).status == 503
    assert (await _get(gateway, "/healthz")).status == 200
    gateway.serve([endpoint])
    assert (await _get(gateway, path)).status == 200
    gateway.proxy.stopping = True
    assert (await _get(gateway, path)).status == 503


@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/nothing"])
async def test_head_is_get_without_its_body(gateway, path):
    """HEAD has the same head as GET, and the connection goes on after it."""
    client = await gateway.connect()
    for method in ("GET", "HEAD", "GET"):
        client.send(f"{method} {path} HTTP/1.1\r\nhost: g\r\n\r\n".encode())
    get, head, again = [await client.response(has_body=place != 1) for place in range(3)]
    assert get.headers == head.headers == again.headers


@pytest.mark.parametrize("method", ["PUT", "DELETE", "TRACE"])
async def test_other_methods(gateway, method):
    """405, and which methods there are."""
    response = await _get(gateway, "/v1/completions", method)
    assert (response.status, response.header("allow")) == (405, "GET, HEAD, OPTIONS, POST")


@pytest.mark.parametrize("target", ["*", "/v1/completions"])
async def test_options(gateway, target):
    """OPTIONS says which methods there are, and nothing to pages of other origins."""
    client = await gateway.connect()
    client.send(f"OPTIONS {target} HTTP/1.1\r\nhost: g\r\norigin: https://a.example\r\n\r\n".encode())
    response = await client.response()
    assert (response.status, response.headers) == (204, [("allow", "GET, HEAD, OPTIONS, POST")])


async def test_http_1_0_is_served_one_request_a_connection(gateway):
    """The answer says that the connection ends, and it ends."""
    client = await gateway.connect()
    client.send(b"GET /healthz HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
    assert (await client.response()).header("connection") == "close"
    assert await client.is_closed()
