"""Clients can reach the inference paths of engines; management paths only if a setting allows them."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.settings import GatewaySettings, conflicts
from headgate.requests import paths

MANAGEMENT = [
    "/abort_request",
    "/abort_requests",
    "/adapters",
    "/close_session",
    "/collective_rpc",
    "/configure_logging",
    "/flush_cache",
    "/init_weight_transfer_engine",
    "/load_lora_adapter",
    "/open_session",
    "/pause",
    "/pause_generation",
    "/release_memory_occupation",
    "/reset_prefix_cache",
    "/scale_elastic_ep",
    "/shutdown",
    "/sleep",
    "/start_profile",
    "/unload_lora_adapter",
    "/update_weights",
    "/update_weights_from_disk",
    "/v1/kv_cache_hints",
    "/v1/load_lora_adapter",
    "/v1/unload_lora_adapter",
    "/wake_up",
    "/",
    "/V1/chat/completions",
]
AMBIGUOUS = [
    "/v1/chat/completions/",
    "/v1/chat/%63ompletions",
    "/v1/chat%2Fcompletions",
    "/v1/chat/completions%00",
    "/v1/chat/completions/%2e%2e/sleep",
    "/v1/chat/../load_lora_adapter",
    "/v1/./chat/completions",
    "/v1/chat/completions/..",
    "//v1/chat/completions",
    "/v1//chat/completions",
    "/v1/chat/completions;a=b",
    "/v1\\chat\\completions",
    "/v1/chat/completions/é",
]


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completion", "/v1/chat/completions"),
        ("/v1/tokenise", ""),
        ("/v1/v2/embed", "/v2/embed"),
        ("/v1/v1/models", "/v1/models"),
        ("/sleep", ""),
    ],
)
def test_a_wrong_base_url_is_told(path, meant):
    """With `/v1` twice, or not at all: the usual mistake with an SDK."""
    message = paths.Paths().refusal(path).message
    assert (f"did you mean {meant}?" in message) if meant else ("did you mean" not in message)
    assert message.endswith(f"orward it, add {path} to clients.forwarded_paths")


@pytest.mark.parametrize("path", sorted(paths.DEFAULT))
async def test_inference_is_forwarded(start_gateway, start_endpoint, path):
    """Each of the paths reaches the endpoint as it was sent, with its query."""
    endpoint = await start_endpoint(b"{}")
    gateway = await start_gateway(endpoint)
    assert (await gateway.ask({"model": "m"}, f"{path}?a=%2e%2e")).status == 200
    assert [call.target for call in endpoint.calls] == [f"{path}?a=%2e%2e"]


async def test_management_is_not_forwarded(gateway, endpoint):
    """The 404 names the path and the setting; no endpoint hears of it, and the connection goes on."""
    client = await gateway.connect()
    for path in MANAGEMENT:
        client.post({"model": "m"}, path)
        response = await client.response()
        assert response.status == 404, path
        error = response.json["error"]
        assert error["code"] == "path_not_forwarded"
        assert repr(path) in error["message"]
        assert f"; to forward it, add {path} to clients.forwarded_paths" in error["message"]
    assert not endpoint.calls
    refused = gateway.metric("headgate_gateway_requests_total", outcome="path_not_forwarded", code="404")
    assert refused == len(MANAGEMENT)


async def test_no_body_is_needed_for_that(gateway):
    """`POST /sleep` is sent without a body: its client hears of the path, not of missing JSON."""
    response = await gateway.ask(b"", "/sleep?level=2")
    assert (response.status, response.json["error"]["code"]) == (404, "path_not_forwarded")


@pytest.mark.parametrize("path", AMBIGUOUS)
async def test_paths_that_servers_read_differently_are_rejected(start_gateway, endpoint, path):
    """Even where everything is forwarded: what a path means must not depend on who reads it."""
    gateway = await start_gateway(endpoint, settings={"clients_forwarded_paths": ("/*",)})
    client = await gateway.connect()
    head = f"POST {path} HTTP/1.1\r\nhost: gateway\r\ncontent-length: 13\r\n\r\n".encode()
    client.send(head + b'{"model":"m"}')
    response = await client.response()
    assert response.status == 400
    assert response.json["error"]["code"] in ("ambiguous_path", "invalid_http")
    assert not endpoint.calls


async def test_a_url_as_target_is_judged_by_its_path(gateway, endpoint):
    """`http://host/path` is another way to ask for the path."""
    client = await gateway.connect()
    client.post({"model": "m"}, "http://gateway/collective_rpc")
    assert (await client.response()).json["error"]["code"] == "path_not_forwarded"


async def test_anthropic_clients_get_the_error_in_their_form(gateway):
    """Their SDKs read no other."""
    response = await gateway.ask({"model": "m"}, "/v1/messages/batches")
    assert response.status == 404
    assert response.json["type"] == "error"
    assert response.json["error"]["type"] == "not_found_error"
    assert "forwarded_paths" in response.json["error"]["message"]


async def test_a_setting_adds_paths(start_gateway, start_endpoint):
    """Single paths, or all below one; the change counts on connections that are open."""
    endpoint = await start_endpoint(b"{}")
    gateway = await start_gateway(endpoint)
    client = await gateway.connect()

    async def statuses():
        found = []
        for path in ("/v1/custom", "/v1/custom/more", "/team-a/v1/completions", "/team-a", "/team-ab/x"):
            client.post({"model": "m"}, path)
            found.append((await client.response()).status)
        return found

    assert await statuses() == [404] * 5
    gateway.shell.change(gateway.shell.settings.replace(clients_forwarded_paths=("/v1/custom", "/team-a/*")))
    assert await statuses() == [200, 404, 200, 404, 404]


async def test_rules_by_path_hold_for_paths_that_are_forwarded(start_gateway, endpoint):
    """A `uri` that matches a path opens nothing: what is forwarded is the operator's decision."""
    gateway = await start_gateway(endpoint)
    assert (await gateway.ask({"model": "m"}, "/team-a/v1/completions")).status == 404


async def test_only_a_trusted_client_lets_invocations_choose_another_model(start_gateway, start_endpoint):
    """Engines let a SageMaker header replace the model of the body, past all routes and limits."""
    endpoint = await start_endpoint(b"{}")
    gateway = await start_gateway(endpoint)
    header = {"x_amzn_sagemaker_adapter_identifier": "another"}
    await gateway.ask({"model": "m"}, "/invocations", **header)
    assert endpoint.calls[0].header("x-amzn-sagemaker-adapter-identifier") is None
    trusting = await start_gateway(endpoint, settings={"clients_trusted_networks": ("127.0.0.1",)})
    await trusting.ask({"model": "m"}, "/invocations", **header)
    assert endpoint.calls[1].header("x-amzn-sagemaker-adapter-identifier") == "another"


_LETTERS = string.ascii_letters + string.digits + string.punctuation + " é"


@given(st.lists(st.text(_LETTERS, max_size=6), max_size=6))
def test_what_passes_means_the_same_to_every_server(segments):
    """A path that is forwarded is its own normal form: nothing in it is decoded, dropped or merged."""
    path = "/" + "/".join(segments)
    if paths.Paths(("/*",)).refusal(path) is None:
        assert not set("%\\;?# é") & set(path)
        assert path == "/" or not {"", ".", ".."} & set(path[1:].split("/"))


@pytest.mark.parametrize(
    "path",
    [
        "",
        "v1/x",
        "/v1/x/",
        "/v1//x",
        "/v1/../x",
        "/v1/x?a",
        "/v1/%41",
        "/a*/b",
        "*",
        "/v1*",
        "/*/x",
        "/a/*/*",
    ],
)
def test_entries_that_cannot_match_are_named(path):
    """The setting says what is wrong instead of matching nothing."""
    [(setting, problem)] = conflicts(
        GatewaySettings().replace(clients_forwarded_paths=("/ok", "/ok/*", "/*", path))
    )
    assert setting == "clients.forwarded_paths"
    assert repr(path) in problem
