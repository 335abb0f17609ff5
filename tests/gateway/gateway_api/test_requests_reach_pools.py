"""A rule that leads to an InferencePool leads to the same pool as everything else."""

from __future__ import annotations

import json
import random

import pytest

from headgate import api, routing
from headgate.api.fallbacks import USUAL

COMPLETION = {"choices": [{"text": "x"}], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}


def completed(call) -> None:
    call.answer(json.dumps(COMPLETION).encode(), **{"content-type": "application/json"})


async def test_a_completion_goes_to_an_endpoint_of_the_pool(front, start_endpoint):
    """C5, C9: the port of the reference does not matter; the path decides the pool."""
    one, two = await start_endpoint(behave=completed), await start_endpoint(behave=completed)
    pools = front.pool("one", one), front.pool("two", two)
    rules = [
        {"matches": [{"path": {"value": path}}], "backendRefs": [{**pool, "port": 1}]}
        for path, pool in zip(("/one", "/two"), pools, strict=True)
    ]
    await front.route(*rules)
    body = b'{"model":"m","prompt":"hello"}'
    response = await front.ask("/two/v1/completions", "POST", body, content_type="application/json")
    assert response.status == 200
    assert not one.calls
    [call] = two.calls
    assert (call.target, call.body) == ("/two/v1/completions", body)
    labels = {"route": "HTTPRoute/shop/r", "pool": "InferencePool/shop/two", "code": "200"}
    assert front.gateway.metric("headgate_gateway_requests_total", **labels) == 1
    tokens = front.gateway.metric("headgate_gateway_tokens_total", pool="InferencePool/shop/two")
    assert tokens == 4
    state = front.gateway.shell.plane.pools[api.ObjectRef("InferencePool", "shop", "two")]
    assert state.traffic.in_flight == 0


@pytest.mark.parametrize(
    ("method", "body"), [("GET", b""), ("POST", b"\x00 no JSON"), ("PUT", b'{"no":"model"}'), ("DELETE", b"")]
)
async def test_any_method_and_content_is_served(method, body, front, start_endpoint):
    endpoint = await start_endpoint(b"")
    await front.route({"backendRefs": [front.pool("llama", endpoint)]})
    for _ in range(6):  # an empty response is no failure of the endpoint
        response = await front.ask("/anything?x=1", method, body)
        assert (response.status, response.body) == (200, b"")
    assert {(call.method, call.target, call.body) for call in endpoint.calls} == {
        (method, "/anything?x=1", body)
    }


async def test_a_large_body_of_no_model_is_served(front, start_endpoint):
    endpoint = await start_endpoint(b"ok")
    await front.route({"backendRefs": [front.pool("llama", endpoint)]})
    body = b"x" * (1 << 20)
    assert (await front.ask("/upload", "POST", body)).status == 200
    assert endpoint.calls[0].body == body


async def test_chunked_bodies_reach_the_pool_with_a_length(front, start_endpoint):
    endpoint = await start_endpoint(behave=completed)
    await front.route({"backendRefs": [front.pool("llama", endpoint)]})
    client = await front.connect()
    client.send(b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
    client.send(b'd\r\n{"model":"m"}\r\n0\r\n\r\n')
    assert (await client.response()).status == 200
    [call] = endpoint.calls
    assert (call.body, call.header("content-length")) == (b'{"model":"m"}', "13")


async def test_models_of_the_pool_are_rewritten(front, start_endpoint):
    """An InferenceModel of the pool applies: its target, and its priority."""
    endpoint = await start_endpoint(behave=completed)
    reference = front.pool("llama", endpoint)
    key = api.ObjectRef("InferenceModel", "shop", "chat")
    target = routing.Target(api.ObjectRef("InferencePool", "shop", "llama"), 1, "llama-lora")
    route = routing.Route(
        key=key,
        name="InferenceModel/shop/chat",
        model="chat",
        adapters=(),
        rules=(routing.Rule("models", None, (target,)),),
    )
    from gateway_objects import route as http_route

    await front.serve(http_route("r", {"backendRefs": [reference]}), models={"chat": (route,)})
    await front.ask("/v1/completions", "POST", b'{"model":"chat"}')
    await front.ask("/v1/completions", "POST", b'{"model":"other"}')
    assert [call.json["model"] for call in endpoint.calls] == ["llama-lora", "other"]


async def test_weights_share_requests_among_pools(front, start_endpoint):
    """C12: with tolerance, as the suite has it. Each draw is independent, so that a pool with 30 % of the
    requests gets three in a row, for which the suite waits."""
    one, two = await start_endpoint(behave=completed), await start_endpoint(behave=completed)
    backends = [{**front.pool("one", one), "weight": 70}, {**front.pool("two", two), "weight": 30}]
    await front.route({"backendRefs": backends})
    front.gateway.shell.gateways.rng = random.Random(7)
    order = ""
    for _ in range(200):
        before = len(one.calls)
        assert (await front.ask("/v1/completions", "POST", b'{"model":"m"}')).status == 200
        order += "1" if len(one.calls) > before else "2"
    tolerance = 200 * 4.5 * (0.7 * 0.3 / 200) ** 0.5
    assert abs(len(one.calls) - 140) <= tolerance
    assert len(one.calls) + len(two.calls) == 200
    assert "222" in order


async def test_a_pool_without_endpoints_gets_503(front):
    await front.route({"backendRefs": [front.pool("llama")]})
    assert (await front.ask("/v1/completions", "POST", b'{"model":"m"}')).status == 503


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/completions", 200), ("/v1/load_lora_adapter", 503), ("/sleep", 503), ("/v1//completions", 503)],
)
async def test_other_models_take_over_at_inference_paths(front, start_endpoint, path, status):
    """The route opens all paths of its own pool, and not those by which engines of other models are
    managed."""
    from gateway_objects import route as http_route

    small = await start_endpoint(behave=completed)
    fallback = routing.Fallback(next=(routing.Next("small"),), reasons=USUAL)
    reference = front.pool("llama", fallback=fallback)
    front.pool("small", small)
    target = routing.Target(api.ObjectRef("InferencePool", "shop", "small"), 1)
    route = routing.Route(
        key=api.ObjectRef("InferenceModel", "shop", "small"),
        name="InferenceModel/shop/small",
        model="small",
        adapters=(),
        rules=(routing.Rule("models", None, (target,)),),
    )
    await front.serve(http_route("r", {"backendRefs": [reference]}), models={"small": (route,)})
    response = await front.ask(path, "POST", b'{"model":"m"}')
    assert response.status == status
    assert [call.json["model"] for call in small.calls] == (["small"] if status == 200 else [])


async def test_another_endpoint_is_tried(front, start_endpoint):
    dead, alive = await start_endpoint(), await start_endpoint(behave=completed)
    await dead.stop()
    await front.route({"backendRefs": [front.pool("llama", dead, alive)]})
    assert (await front.ask("/v1/completions", "POST", b'{"model":"m"}')).status == 200


async def test_filters_apply_to_pools_too(front, start_endpoint):
    endpoint = await start_endpoint(behave=completed)
    filters = [
        {
            "type": "URLRewrite",
            "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/v1"}},
        },
        {"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "a", "value": "b"}]}},
        {"type": "ResponseHeaderModifier", "responseHeaderModifier": {"add": [{"name": "c", "value": "d"}]}},
    ]
    rule = {
        "matches": [{"path": {"value": "/team"}}],
        "filters": filters,
        "backendRefs": [front.pool("llama", endpoint)],
    }
    await front.route(rule)
    response = await front.ask("/team/completions", "POST", b'{"model":"m"}')
    assert response.header("c") == "d"
    [call] = endpoint.calls
    assert (call.target, call.header("a")) == ("/v1/completions", "b")


async def test_streams_pass_as_they_come(front, endpoint, eventually):
    await front.route({"backendRefs": [front.pool("llama", endpoint)]})
    client = await front.connect()
    body = b'{"model":"m","stream":true,"stream_options":{"include_usage":true}}'
    client.send(b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    for event in (b'data: {"choices":[{"text":"a"}]}\n\n', b"data: [DONE]\n\n"):
        call.write(b"%x\r\n%b\r\n" % (len(event), event))
        read = b""
        while event not in read:
            read += await client.reader.read(1000)
    call.write(b"0\r\n\r\n")
    await eventually(lambda: front.gateway.settled == 1)


async def test_a_body_that_is_too_long_is_refused(start_front, start_endpoint):
    front, endpoint = await start_front(clients_max_body_bytes=1024), await start_endpoint(b"ok")
    await front.route({"backendRefs": [front.pool("llama", endpoint)]})
    for head in (b"content-length: 2000\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n7d0\r\n"):
        client = await front.connect()
        client.send(b"POST / HTTP/1.1\r\nhost: a\r\n" + head + b"x" * 2000)
        assert (await client.response()).status == 413
    assert not endpoint.calls
