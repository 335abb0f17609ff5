"""OpenAI's and Anthropic's own clients, when another model takes over."""

import pytest

from headgate import api, routing
from headgate.api.fallbacks import USUAL

QUESTION = [{"role": "user", "content": "How deep is the canal?"}]


@pytest.fixture
async def gateway(start_gateway, start_endpoint, simulator):
    """All engines of "big" fail, and "m" takes over."""
    broken = await start_endpoint(behave=lambda call: call.reset())
    gateway = await start_gateway()
    models, pools = {}, {}
    for name, endpoint, next in (("big", broken, "m"), ("m", simulator, "")):
        key = api.ObjectRef("ModelServer", "default", name)
        pools[key] = routing.Pool(
            key=key, endpoints=(routing.Endpoint(f"default/{name}", "127.0.0.1", endpoint.port),)
        )
        models[name] = (
            routing.Route(
                key=api.ObjectRef("ModelRoute", "default", name),
                name=f"default/{name}",
                model=name,
                adapters=(),
                rules=(routing.Rule("rule", None, (routing.Target(key, 1),)),),
                fallback=routing.Fallback(next=(routing.Next(next),), reasons=USUAL) if next else None,
            ),
        )
    gateway.shell.use(routing.Snapshot(models=models, pools=pools))
    gateway.shell.plane.is_ready = True
    return gateway


async def test_openai(gateway, openai_sdk):
    """Whole and streamed, with the name of the model that responded."""
    sdk = openai_sdk(gateway)
    asked = {"model": "big", "messages": QUESTION, "max_tokens": 8}
    raw = await sdk.chat.completions.with_raw_response.create(**asked)
    whole = raw.parse()
    assert (whole.model, raw.headers["x-headgate-model"]) == ("m", "m")
    assert raw.headers["x-headgate-fallback"] == "big;error"
    chunks = [chunk async for chunk in await sdk.chat.completions.create(**asked, stream=True)]
    assert {chunk.model for chunk in chunks} == {"m"}
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content


async def test_anthropic(gateway, anthropic_sdk):
    sdk = anthropic_sdk(gateway)
    asked = {"model": "big", "messages": QUESTION, "max_tokens": 8}
    whole = await sdk.messages.create(**asked)
    assert whole.model == "m"
    async with sdk.messages.stream(**asked) as stream:
        final = await stream.get_final_message()
    assert (final.model, final.content[0].text) == ("m", whole.content[0].text)
