"""Health, readiness and the list of models work without an endpoint."""

import msgspec
import pytest

from headgate.requests import paths


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
    (route,) = gateway.shell.plane.snapshot.models["m"]
    route = msgspec.structs.replace(route, model="org/name")
    gateway.shell.use(msgspec.structs.replace(gateway.shell.plane.snapshot, models={"org/name": (route,)}))
    assert (await _get(gateway, path)).json["id"] == "org/name"


@pytest.mark.parametrize(
    ("path", "code"), [("/v1/models/x", "model_not_found"), ("/v1/modelsx", "not_found"), ("/", "not_found")]
)
async def test_nothing_there(gateway, path, code):
    """404, and the code tells a wrong model from a wrong path, whatever the method."""
    response = await _get(gateway, path)
    assert (response.status, response.json["error"]["code"]) == (404, code)
    if code == "not_found":
        assert (await _get(gateway, path, "DELETE")).status == 404


async def test_requests_for_nothing_are_counted(gateway):
    """By status and code, in no line of the access log; what the gateway serves itself is not counted."""
    asked = [("/sleep", "GET"), ("/sleep", "HEAD"), ("/v1/models/x", "GET"), ("/v1/completions", "PUT")]
    for path, method in (*asked, ("/healthz", "GET"), ("/v1/models", "GET"), ("/sleep", "OPTIONS")):
        await _get(gateway, path, method)
    count = "headgate_gateway_requests_total"
    assert gateway.metric(count) == len(asked)
    assert gateway.metric(count, model="unknown", code="404", outcome="not_found") == 2
    assert gateway.metric(count, model="unknown", code="404", outcome="model_not_found") == 1
    assert gateway.metric(count, model="unknown", code="405", outcome="method_not_allowed") == 1
    assert not gateway.log_lines()


async def test_a_management_path_names_the_setting_and_its_method(gateway):
    """No setting opens a path for GET: who looks for one is told."""
    told = (await _get(gateway, "/server_info")).json["error"]["message"]
    assert "only POST is forwarded" in told
    assert "clients.forwarded_paths" in told


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("path", sorted(paths.DEFAULT))
async def test_a_request_that_is_not_posted_is_told_to_be(gateway, path, method):
    """The path of inference is right, the method is not: each such path says so in the same way."""
    response = await _get(gateway, f"{path}?a=b", method)
    assert (response.status, response.header("allow")) == (405, "OPTIONS, POST")
    assert f"{method} is not allowed at '{path}': send POST" in response.json["error"]["message"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/health", "/v1/models", "/models", "/v1/models/m"])
async def test_pages_of_the_gateway_are_only_read(gateway, endpoint, path, method):
    """405 says which methods there are; a body is read, and the connection goes on."""
    client = await gateway.connect()
    for _ in range(2):
        client.send(f"{method} {path} HTTP/1.1\r\nhost: g\r\ncontent-length: 2\r\n\r\n{{}}".encode())
        response = await client.response()
        assert (response.status, response.header("allow")) == (405, "GET, HEAD, OPTIONS")
        assert response.json["error"]["code"] == "method_not_allowed"
        assert f"{method} is not allowed at '{path}': send GET" in response.json["error"]["message"]
    assert not endpoint.calls


async def test_methods_follow_the_paths_that_a_setting_adds(start_gateway, endpoint):
    """A path that is forwarded can be posted to; the gateway's own pages below it can be read as well."""
    gateway = await start_gateway(endpoint, settings={"clients_forwarded_paths": ("/*",)})
    assert (await _get(gateway, "/sleep")).header("allow") == "OPTIONS, POST"
    assert (await _get(gateway, "/v1/models", "PUT")).header("allow") == "GET, HEAD, OPTIONS, POST"
    assert (await _get(gateway, "/v1/../sleep")).status == 404


@pytest.mark.parametrize("path", ["/readyz", "/health"])
async def test_readiness(start_gateway, endpoint, path):
    """Not ready until there is a snapshot, nor while draining; alive in any case."""
    gateway = await start_gateway()
    assert (await _get(gateway, path)).status == 503
    assert (await _get(gateway, "/healthz")).status == 200
    gateway.serve([endpoint])
    assert (await _get(gateway, path)).status == 200
    gateway.shell.services.shutdown.is_stopping = True
    assert (await _get(gateway, path)).status == 503


@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/nothing"])
async def test_head_is_get_without_its_body(gateway, path):
    """HEAD has the same head as GET, and the connection goes on after it."""
    client = await gateway.connect()
    for method in ("GET", "HEAD", "GET"):
        client.send(f"{method} {path} HTTP/1.1\r\nhost: g\r\n\r\n".encode())
    get, head, again = [await client.response(has_body=place != 1) for place in range(3)]
    assert get.headers == head.headers == again.headers


@pytest.mark.parametrize(
    ("target", "methods"),
    [
        ("*", "GET, HEAD, OPTIONS, POST"),
        ("/v1/completions", "OPTIONS, POST"),
        ("/v1/models", "GET, HEAD, OPTIONS"),
        ("/nothing", "OPTIONS"),
    ],
)
async def test_options(gateway, target, methods):
    """OPTIONS says which methods there are, and nothing to pages of other origins."""
    client = await gateway.connect()
    client.send(f"OPTIONS {target} HTTP/1.1\r\nhost: g\r\norigin: https://a.example\r\n\r\n".encode())
    response = await client.response()
    assert (response.status, response.headers) == (204, [("allow", methods)])


async def test_http_1_0_is_served_one_request_a_connection(gateway):
    """The answer says that the connection ends, and it ends."""
    client = await gateway.connect()
    client.send(b"GET /healthz HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
    assert (await client.response()).header("connection") == "close"
    assert await client.is_closed()


@pytest.mark.parametrize("path", ["/v1/models", "/models", "/v1/models/m"])
async def test_models_are_not_listed_before_they_are_known(start_gateway, start_endpoint, path):
    """A client that lists them once, at its own start, would find none for ever."""
    gateway = await start_gateway()
    early = await _get(gateway, path)
    assert (early.status, early.json["error"]["code"]) == (503, "not_ready")
    assert early.header("retry-after")
    gateway.serve([await start_endpoint()])
    assert (await _get(gateway, path)).status == 200
