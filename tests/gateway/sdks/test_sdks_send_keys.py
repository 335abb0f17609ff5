"""The SDKs authenticate with their `api_key`, and raise their own errors for what is rejected."""

import json

import anthropic
import openai
import pytest

from headgate.auth import keys

ASKED = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}


@pytest.fixture
def guarded(start_gateway, tmp_path):
    """Starts a gateway whose tenant may use m, and makes its key."""

    async def start(endpoint):
        shown, key = keys.create("team-a", "")
        keys_file, tenants_file = tmp_path / "keys.json", tmp_path / "tenants.yaml"
        keys_file.touch(0o600)
        keys_file.write_text(json.dumps([{"id": key.id, "tenant": "team-a", "sha256": key.sha256}]))
        tenants_file.write_text(
            "apiVersion: headgate.dev/v1alpha1\nkind: Tenant\nmetadata: {name: team-a}\nspec: {models: [m]}\n"
        )
        settings = {"auth_keys_file": str(keys_file), "auth_tenants_file": str(tenants_file)}
        return shown, await start_gateway(endpoint, settings=settings)

    return start


async def test_openais(guarded, simulator, openai_sdk):
    """With the key, without it, for another model, and in the list of models."""
    key, gateway = await guarded(simulator)
    stranger = openai_sdk(gateway)
    sdk = stranger.with_options(api_key=key)
    assert (await sdk.chat.completions.create(**ASKED)).usage.completion_tokens == 5
    stream = await sdk.chat.completions.create(**ASKED, stream=True)
    assert [chunk async for chunk in stream]
    assert [model.id async for model in sdk.models.list()] == ["m"]
    with pytest.raises(openai.AuthenticationError) as raised:
        await stranger.chat.completions.create(**ASKED)
    assert raised.value.code == "invalid_api_key"
    with pytest.raises(openai.PermissionDeniedError) as raised:
        await sdk.chat.completions.create(**ASKED | {"model": "other"})
    assert raised.value.code == "model_not_allowed"


async def test_anthropics(guarded, start_endpoint, anthropic_sdk, says):
    """By `x-api-key`, or with `auth_token` as a bearer; errors are of its types."""
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "deep"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }
    endpoint = await start_endpoint(behave=says(message))
    key, gateway = await guarded(endpoint)
    stranger = anthropic_sdk(gateway)
    for sdk in (stranger.with_options(api_key=key), stranger.with_options(auth_token=key, api_key=None)):
        assert (await sdk.messages.create(**ASKED)).content[0].text == "deep"
    assert all(call.header("x-api-key") in (None, "none") for call in endpoint.calls)
    assert all(call.header("authorization") is None for call in endpoint.calls)
    with pytest.raises(anthropic.AuthenticationError) as raised:
        await stranger.messages.create(**ASKED)
    assert raised.value.body["error"]["type"] == "authentication_error"
    with pytest.raises(anthropic.PermissionDeniedError):
        await stranger.with_options(api_key=key).messages.create(**ASKED | {"model": "other"})
