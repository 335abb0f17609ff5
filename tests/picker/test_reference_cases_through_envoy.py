"""The acceptance cases for endpoint pickers that a client of a real Envoy can see, by their ids.

B29 is in the bodies of 20 MB of `test_through_envoy`, and B51 and B52 are its retries and disconnects. B38
and B41 are in `test_grpc_through_envoy`. Envoy shows nothing of health checks (B55), wrong configurations
(B56) and scores of plugins (B58).
"""

import asyncio
import json
from collections import Counter

import pytest
from envoy_rig import ENVOY
from picker_world import completion, model, objective, pod, pool
from reference_fixtures import (
    SCORERS,
    UUID4,
    deleted,
    pairs_of,
    prompt,
    rewrite,
    sessions_of_pairs,
    with_plugins,
)

from headgate.dataplane.settings import Queue

pytestmark = pytest.mark.skipif(ENVOY is None, reason="there is no Envoy: run tools/fetch_envoy.sh")

NOBODY = "inference error: ServiceUnavailable - failed to find endpoint candidates for serving the request"


def engine_of(response):
    """The number of the engine that responded."""
    assert response.status_code == 200, response.text
    return int(response.headers["x-engine"].removeprefix("pod-"))


async def test_b1_to_b16_endpoints_by_their_load(rig):
    """Which engine gets a request, by what engines report and by what the proxy allows."""
    found = await rig(engines=3, tells=True, sections={"scheduling": with_plugins(*SCORERS)})
    world = found.world
    ports = [engine.port for engine in found.engines]

    async def asked(body=None, **more):
        response = await found.ask(body, **more)
        await found.settled()
        return engine_of(response)

    # B1, B13, B34, B36, B43
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    response = await found.ask(X_GATEWAY_INFERENCE_OBJECTIVE="my-model")  # B32
    assert engine_of(response) == 2
    assert json.loads(response.headers["x-metadata"]) == {
        "x-gateway-destination-endpoint": f"127.0.0.1:{ports[1]}"
    }
    _, headers, body = found.last
    assert body == completion()
    assert headers["x-gateway-destination-endpoint"] == f"127.0.0.1:{ports[1]}"
    assert UUID4.fullmatch(headers["x-request-id"])
    await found.settled()
    assert world.sample("inference_pool_ready_pods", name="pool") == 3
    assert world.sample("llm_d_epp_request_total", priority="2", model_name="my-model") == 1
    await asked(x_request_id="mine")
    assert found.last[1]["x-request-id"] == "mine"
    # B11, B15, B14
    first, second, third = (f"127.0.0.1:{port}" for port in ports)
    assert await asked(x_subset=third) == 3
    assert await asked(x_subset=f"{third} , {first}") == 1
    assert await asked(x_subset=f"{first},{second},{third}") == 2
    response = await found.ask(x_subset="192.168.1.9:8000")
    assert (response.status_code, response.text) == (503, NOBODY)
    assert response.headers["x-llm-d-request-dropped-reason"] == "rejected-no-endpoints"
    response = await found.http.get("/v1/models", headers={"x-subset": "192.168.1.9:8000"})
    assert (response.status_code, response.text) == (503, NOBODY)
    # B16
    response = await found.ask(b"passthrough-parser", "/anything", x_gateway_inference_objective="my-model")
    assert (engine_of(response), response.content) == (2, b"passthrough-parser")
    await found.settled()
    named = {"model_name": "", "target_model_name": "", "priority": "2"}
    assert world.sample("llm_d_epp_request_total", **named) == 1
    # B2, B3, B4, B10: adapters
    found.apply(model("sql-lora", "Critical", target=1))
    for case, readings, picked in (
        ("B2", ((0, 0.2, "foo", "bar"), (0, 0.1, "foo", "target"), (10, 0.2, "foo", "bar")), 2),
        ("B3", ((10, 0.2, "foo", "bar"), (10, 0.4, "foo", "target"), (10, 0.3, "foo")), 2),
        ("B4", ((6, 0.2, "foo", "target"), (0, 0.85), (10, 0.9)), 1),
        ("B10", ((0, 0.2), (0, 0.1, "foo", "target"), (10, 0.2)), 2),
    ):
        world.see(*readings, max_adapters=2)
        assert await asked(completion("sql-lora")) == picked, case
        assert found.last[2] == completion("target")
    # B54
    found.apply(pods=[found.pods[0], deleted(found.pods[1]), found.pods[2]])
    world.see((0, 0.1), (0, 0.1))
    assert 2 not in {await asked() for _ in range(6)}
    # B7
    found.apply(pods=[])
    response = await found.http.get("/v1/models")
    told = "inference error: Internal - no pods available in datastore"
    assert (response.status_code, response.text) == (500, told)


async def test_b6_a_sheddable_body_in_two_parts(rig):
    """B6: as long as an endpoint has capacity; the engine gets it once."""
    queue = Queue(enabled=False, detector="utilization-detector")
    found = await rig(model("cheap", "Sheddable", target=1), sections={"queue": queue})
    found.world.see((4, 0.2, "foo", "target"), (4, 0.85, "foo", "target"))
    body = completion("cheap")

    async def upload():
        yield body[:20]
        await asyncio.sleep(0.05)
        yield body[20:]

    assert engine_of(await found.ask(upload())) == 1
    assert found.last[2] == completion("target")


async def test_b17_to_b31_bodies_are_rewritten(rig):
    """What engines get, and what clients get back."""
    found = await rig()

    async def name_sent(body, **headers):
        assert (await found.ask(body, **headers)).status_code == 200
        return json.loads(found.last[2])["model"]

    # B17
    found.serve(b'{"model":"target"}')
    response = await found.ask(completion("my"), x_llm_d_model_name_rewrite="target")
    assert response.content == b'{"model":"my"}'
    await found.settled()
    named = {"model_name": "my", "target_model_name": "target"}
    assert found.world.sample("llm_d_epp_request_total", **named) == 1
    assert json.loads(found.last[2])["model"] == "target"
    # B19
    found.apply(
        rewrite("young", 1, "my", b=None), rewrite("old", 9, "my", a=None), rewrite("all", 20, None, c=None)
    )
    assert await name_sent(completion("my"), x_llm_d_model_name_rewrite="d") == "a"
    assert await name_sent(completion("other")) == "c"
    # B21
    found.apply(rewrite("all", 1, None, a=90, b=10))
    assert Counter([await name_sent(completion()) for _ in range(20)]) == {"a": 18, "b": 2}
    # B31
    found.apply(model("my-model", target=1))
    body = b'{ "z":9007199254740993, "model" : "my-model","prompt":"<&>","a":1 }'
    await found.ask(body)
    assert found.last[2] == body.replace(b'"my-model"', b'"target"')
    # B34
    found.apply(objective("mine", 7, pool="other"))
    before = found.world.sample("llm_d_epp_request_total", priority="0")
    await found.ask(x_gateway_inference_objective="mine")
    assert found.world.sample("llm_d_epp_request_total", priority="0") == before + 1


async def test_b24_to_b27_responses(rig):
    """The client gets them whole, and the counts in them are read."""
    found = await rig()

    def counted(direction):
        return found.world.sample("headgate_gateway_tokens_total", direction=direction)

    # B24
    body = b'{"model":"my-model","usage":{"prompt_tokens":11,"total_tokens":21,"completion_tokens":10}}'
    found.serve(body, b"")
    assert (await found.ask()).content == body
    await found.settled()
    assert (counted("input"), counted("output")) == (11, 10)
    # B25, B26
    event = b'data: {"usage":{"prompt_tokens":7,"total_tokens":17,"completion_tokens":10}}\n\n'
    for times, parts in enumerate(((event,), (event[:40], event[40:])), start=1):
        found.serve(b"data: {}\n\n", *parts, b"data: [DONE]\n\n", b"", kind=b"text/event-stream")
        assert (await found.ask()).content == b"data: {}\n\n" + event + b"data: [DONE]\n\n"
        await found.settled()
        assert (counted("input"), counted("output")) == (11 + 7 * times, 10 + 10 * times)
    # B27
    found.apply(model("my-model", target=1))
    event = b'data: {"id":"1","model":"target","choices":[{"text":"target"}]}\n\n'
    for at in (20, 30, 35):
        found.serve(event[:at], event[at:], b"data: [DONE]\n\n", kind=b"text/event-stream")
        content = (await found.ask(completion(stream=True))).content
        assert content == event.replace(b"target", b"my-model", 1) + b"data: [DONE]\n\n"


async def test_b45_b46_sessions(rig):
    """The token of the first response leads to its engine, until that is gone."""
    found = await rig(engines=3, sections={"scheduling": with_plugins("session-affinity-filter")})
    response = await found.ask()
    first, token = engine_of(response), response.headers["x-session-token"]
    for _ in range(5):
        assert engine_of(await found.ask(x_session_token=token)) == first
    found.apply(pods=[each for number, each in enumerate(found.pods, start=1) if number != first])
    response = await found.ask(x_session_token=token)
    assert engine_of(response) != first
    assert response.headers["x-session-token"] != token


async def test_b47_b48_sessions_of_prefill_and_decode(rig):
    """Both phases have a token; without a decider there is one, and nothing for a sidecar."""
    found = await rig(
        engines=4, sections={"scheduling": sessions_of_pairs({"prefill": "prefix-based-pd-decider"})}
    )
    found.apply(pods=pairs_of(found.pods))
    names = "x-session-token", "x-session-token-prefill"
    response = await found.ask(prompt(0))
    tokens = {name: response.headers[name] for name in names}
    both = engine_of(response), found.last[1]["x-prefiller-host-port"]
    for number in range(1, 4):
        response = await found.ask(prompt(number), **tokens)
        assert (engine_of(response), found.last[1]["x-prefiller-host-port"]) == both
        assert {name: response.headers[name] for name in names} == tokens


async def test_b48_without_a_decider(rig):
    """B48."""
    found = await rig(engines=4, sections={"scheduling": sessions_of_pairs({})})
    found.apply(pods=pairs_of(found.pods))
    response = await found.ask(prompt(0))
    assert engine_of(response) in (3, 4)
    assert "x-session-token" in response.headers
    assert "x-session-token-prefill" not in response.headers
    assert "x-prefiller-host-port" not in found.last[1]


async def test_b53_each_port_is_an_endpoint(rig):
    """B53: of a Pod with two of them, unless it says which it serves."""
    found = await rig()
    ports = [engine.port for engine in found.engines]

    async def seen(**notes):
        found.world.apply(pool(ports=ports), pod(1, ip="127.0.0.1", **notes))
        return {engine_of(await found.ask()) for _ in range(8)}

    assert await seen() == {1, 2}
    assert await seen(**{"llm-d.ai/active-ports": str(ports[1])}) == {2}


async def test_b54_a_request_goes_on_where_its_pod_is_no_longer_ready(rig):
    """B54: it is served to its end, while the next one goes elsewhere."""
    found = await rig()
    goes_on = asyncio.Event()
    first = found.engines[0]

    async def serve(body, send):
        await first.head(send)
        await first.part(send, b'{"a":', more=True)
        await goes_on.wait()
        await first.part(send, b"1}", more=False)

    first.serve = serve
    found.world.see((0, 0.1), (10, 0.2))
    running = asyncio.create_task(found.ask())
    async with asyncio.timeout(10):
        while not first.requests:
            await asyncio.sleep(0.01)
    found.apply(pods=[pod(1, is_ready=False), found.pods[1]])
    assert engine_of(await found.ask()) == 2
    goes_on.set()
    response = await running
    assert (engine_of(response), response.content) == (1, b'{"a":1}')
    await found.settled()


async def test_scores_are_metadata_of_envoy(rig):
    """--emit-endpoint-scores: of each endpoint."""
    found = await rig(tells=True, choices={"emits_scores": True})
    told = json.loads((await found.ask()).headers["x-metadata"])
    scores = told["x-gateway-destination-endpoint-scores"]
    assert scores.keys() == {f"127.0.0.1:{engine.port}" for engine in found.engines}
