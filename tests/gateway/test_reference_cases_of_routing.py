"""The acceptance cases of routing, by their ids: real objects, translated, and requests through sockets."""

import asyncio
import itertools
import json
import re
from collections import Counter
from dataclasses import dataclass, field

import msgspec
import pytest

from headgate import api, routing

POD_IP = "127.0.0.1"


def route(name, *rules, model="m", age=0, **spec):
    """A ModelRoute; of two the one with the greater age is older. Without rules it sends all to "pool"."""
    made = {"rules": list(rules) or [rule("pool")], **spec}
    if model is not None:
        made["modelName"] = model
    created = f"2026-01-01T00:00:{59 - age:02}Z"
    metadata = {"name": name, "namespace": "default", "creationTimestamp": created}
    return msgspec.convert({"metadata": metadata, "spec": made}, api.ModelRoute)


def rule(*targets, match=None, **weights):
    every = [{"modelServerName": name} for name in targets]
    every += [{"modelServerName": name, "weight": weight} for name, weight in weights.items()]
    return {"targetModels": every, **({"modelMatch": match} if match is not None else {})}


def body(**fields):
    return {"model": "m", "prompt": "hi", **fields}


class World:
    """A gateway over ModelRoutes, with one scripted endpoint for each ModelServer."""

    def __init__(self, gateway, start_endpoint):
        self.gateway, self._start_endpoint = gateway, start_endpoint
        self.endpoints = {}

    async def apply(self, routes, servers=("pool",), *, empty=()):
        """Servers are names, or (name, spec); those in `empty` have no ready Pod."""
        made, pods = [], []
        for each in servers:
            name, more = (each, {}) if isinstance(each, str) else each
            spec = {
                "inferenceEngine": "vLLM",
                "workloadSelector": {"matchLabels": {"app": name}},
                **more,
            }
            made.append(
                msgspec.convert(
                    {"metadata": {"name": name, "namespace": "default"}, "spec": spec}, api.ModelServer
                )
            )
            pods.append(await self._pod(name, ready=name not in empty))
        self.gateway.shell.use(routing.translate(routes, made, pods))
        self.gateway.shell.plane.is_ready = True

    async def _pod(self, server, *, ready):
        if server not in self.endpoints:
            self.endpoints[server] = await self._start_endpoint(server.encode())
        notes = {"headgate.dev/address": f"{POD_IP}:{self.endpoints[server].port}"}
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        pod = {
            "metadata": {
                "name": f"{server}-pod",
                "namespace": "default",
                "labels": {"app": server},
                "annotations": notes,
            },
            "status": {"podIP": POD_IP, "conditions": [condition]},
        }
        return msgspec.convert(pod, api.Pod)

    async def served_by(self, *args, **headers):
        """The name of the ModelServer that answered, or the status and code of the refusal."""
        response = await self.gateway.ask(*args, **headers)
        if response.status == 200:
            return response.body.decode()
        return response.status, response.json["error"]["code"]


@pytest.fixture
async def world(start_gateway, start_endpoint):
    """Any path is forwarded, as the references do it."""
    return World(await start_gateway(settings={"clients_forwarded_paths": ("/*",)}), start_endpoint)


NOT_FOUND = (404, "model_not_found")


@dataclass
class Ask:
    """A request, and the ModelServer that serves it or the refusal that it gets."""

    expected: object
    body: object = field(default_factory=body)
    path: str = "/v1/chat/completions"
    headers: dict = field(default_factory=dict)


PREMIUM = {"headers": {"user-type": {"exact": "premium"}}}
BOTH = {"headers": {"x-team": {"exact": "a"}}, "uri": {"prefix": "/v1/chat"}}
TENANT = {"headers": {"x-tenant": {"regex": "^(acme|globex)-prod$"}}}
UNCLOSED = {"uri": {"regex": "^(unclosed"}}
EMPTY = {"headers": {"x-any": {}}, "uri": {}}

CASES = {
    "R1 oldest first": (
        [route("younger", rule("b")), route("older", rule("a"), age=9)],
        [Ask("a")],
    ),
    "R1 the next when the oldest is gone": ([route("younger", rule("b"))], [Ask("b")]),
    "R2 rules in order": (
        [route("r", rule("a", match=PREMIUM), rule("b"))],
        [
            Ask("a", headers={"User-Type": "premium"}),
            Ask("b", headers={"user-type": "basic"}),
            Ask("b", headers={"user-type": "premium2"}),
            Ask("b"),
        ],
    ),
    "R3 all conditions must hold": (
        [route("r", rule("a", match=BOTH))],
        [
            Ask("a", headers={"x-team": "a"}),
            Ask(NOT_FOUND, headers={"x-team": "a"}, path="/v1/completions"),
            Ask(NOT_FOUND, headers={"x-team": "b"}),
        ],
    ),
    "R3 the query is no part of the path": (
        [route("r", rule("a", match={"uri": {"exact": "/v1/embeddings"}}))],
        [Ask("a", path="/v1/embeddings?x=/v1/chat"), Ask(NOT_FOUND, path="/v1/chat?/v1/embeddings")],
    ),
    "R3 the first of several values of a header": (
        [route("r", rule("a", match=PREMIUM), rule("b"))],
        [Ask("b", headers={"user-type": "basic\r\nuser-type: premium"})],
    ),
    "R3 the model of the body": (
        [
            route(
                "r",
                rule("a", match={"body": {"model": "lora"}}),
                rule("b", match={"body": {"model": "m"}}),
                loraAdapters=["lora", "other"],
            )
        ],
        [Ask("a", body(model="lora")), Ask("b"), Ask(NOT_FOUND, body(model="other"))],
    ),
    "R4 expressions are searched": (
        [
            route(
                "r",
                rule("a", match=TENANT),
                rule("b", match={"headers": {"x-tenant": {"regex": "prod"}}}),
            )
        ],
        [
            Ask("a", headers={"x-tenant": "globex-prod"}),
            Ask("b", headers={"x-tenant": "initech-prod-2"}),
            Ask(NOT_FOUND, headers={"x-tenant": "initech"}),
        ],
    ),
    "R5 an expression that is none never fits": (
        [route("r", rule("a", match=UNCLOSED), rule("b", match=PREMIUM))],
        [Ask(NOT_FOUND), Ask("b", headers={"user-type": "premium"})],
    ),
    "R6 an empty condition fits all": (
        [route("r", rule("a", match=EMPTY))],
        [Ask("a"), Ask("a", headers={"x-any": "thing"})],
    ),
    "R6 a missing header is an empty one": (
        [route("r", rule("a", match={"headers": {"x-none": {"exact": ""}}}), rule("b"))],
        [Ask("a"), Ask("b", headers={"x-none": "some"})],
    ),
    "R7 exact goes first": (
        [route("r", rule("a", match={"uri": {"exact": "/v1/score", "regex": ".*"}}))],
        [Ask("a", path="/v1/score"), Ask(NOT_FOUND)],
    ),
    "R11 adapters keep their name": (
        [route("r", rule("a"), model=None, loraAdapters=["lora"])],
        [Ask("a", body(model="lora")), Ask(NOT_FOUND)],
    ),
    "R13 the name of a model is no adapter": (
        [
            route("models", rule("a", match=PREMIUM), model="both"),
            route("adapters", rule("b"), loraAdapters=["both"], age=9),
        ],
        [Ask(NOT_FOUND, body(model="both")), Ask("a", body(model="both"), headers={"user-type": "premium"})],
    ),
    "R13 a route without a rule that fits lets the next try": (
        [route("older", rule("a", match=PREMIUM), age=9), route("younger", rule("b"))],
        [Ask("b"), Ask("a", headers={"user-type": "premium"})],
    ),
    "R14 unknown model": ([route("r", rule("a"))], [Ask(NOT_FOUND, body(model="n"))]),
    "R16 no model": (
        [route("r", rule("a"))],
        [
            Ask((400, "model_missing"), {"prompt": "hi"}),
            Ask((400, "model_missing"), body(model="  ")),
            Ask((400, "invalid_type"), body(model=5)),
            Ask((400, "invalid_json"), b'{"model":"m"} {}'),
        ],
    ),
    "R17 no prompt": ([route("r", rule("a"))], [Ask("a", {"model": "m"})]),
    "R20 no ModelServer": ([route("r", rule("gone"))], [Ask(NOT_FOUND)]),
    "R20 no ready Pod": ([route("r", rule("empty"))], [Ask((503, "no_ready_endpoint"))]),
}


@pytest.mark.parametrize(("routes", "asks"), CASES.values(), ids=CASES)
async def test_matching(world, routes, asks):
    """What each request is served by, or refused with."""
    await world.apply(routes, ["a", "b", "empty"], empty=["empty"])
    for ask in asks:
        assert await world.served_by(ask.body, ask.path, **ask.headers) == ask.expected, ask
    if any(ask.expected == NOT_FOUND and ask.body["model"] == "n" for ask in asks):
        assert world.gateway.metric("headgate_gateway_requests_total", model="unknown") == 1


async def test_r1_deleting_the_oldest_lets_the_next_serve(world):
    """R1: a younger route for the same name serves as soon as the older one is gone."""
    older, younger = route("older", rule("a"), age=9), route("younger", rule("b"))
    await world.apply([younger, older], ["a", "b"])
    assert await world.served_by() == "a"
    await world.apply([younger], ["a", "b"])
    assert await world.served_by() == "b"


async def test_r4_no_expression_can_stall_the_gateway(world):
    """R4: what takes a backtracking engine for ever takes this one no time, on the longest of heads."""
    hostile = {"headers": {"x-a": {"regex": "^(a+)+$"}}, "uri": {"regex": "(x+x+)+y"}}
    await world.apply([route("r", rule("a", match=hostile), rule("b"))], ["a", "b"])
    async with asyncio.timeout(30):
        path = "/" + "x" * 8000
        assert await world.served_by(body(), path, **{"x-a": "a" * 8000 + "!"}) == "b"


async def _turns(world, count):
    client = await world.gateway.connect()
    served = []
    for _ in range(count):
        client.post(body())
        served.append((await client.response()).body.decode())
    return served


async def test_r8_weights_are_exact(world):
    """R8: of 70 to 30, no stretch is more than two requests off, and a weight of 0 gets none."""
    await world.apply([route("r", rule(a=70, b=30, empty=0))], ["a", "b", "empty"])
    served = await _turns(world, 200)
    assert Counter(served) == {"a": 140, "b": 60}
    for start, end in itertools.combinations(range(0, 201, 7), 2):
        assert abs(served[start:end].count("b") - 0.3 * (end - start)) < 2


async def test_a_rule_whose_weights_are_all_0_lets_the_next_route_try(world):
    """As in Kthena's router: not the next rule of its route serves, but the next route. If none does, the
    refusal names the first without a weight."""
    dark = route("dark", rule(pool=0), rule("pool"), age=2)
    other = route("other", rule("other", match={"uri": {"prefix": "/v1/chat"}}), age=1)
    await world.apply([dark, other], ["pool", "other"])
    assert await world.served_by(body()) == "other"
    refused = await world.gateway.ask(body(), "/v1/completions")
    assert (refused.status, refused.json["error"]["code"]) == (503, "no_target")
    assert "default/dark" in refused.json["error"]["message"]


async def test_r10_a_target_without_a_weight_counts_100(world):
    """R10: weights that are not set are the default's, beside those that are."""
    await world.apply([route("r", rule("a", b=50))], ["a", "b"])
    assert Counter(await _turns(world, 30)) == {"a": 20, "b": 10}


async def test_r11_only_the_name_of_the_model_is_replaced(world):
    """R11: a request for an adapter keeps its name where the model's is replaced."""
    await world.apply([route("r", loraAdapters=["lora"])], [("pool", {"model": "org/real"})])
    for name in ("m", "lora"):
        assert await world.served_by(body(model=name)) == "pool"
    assert [call.json["model"] for call in world.endpoints["pool"].calls] == ["org/real", "lora"]


PATHS = [
    "/v1/completions",
    "/v1/embeddings",
    "/v1/rerank",
    "/rerank",
    "/v2/rerank",
    "/v1/score",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/tokenize",
    "/detokenize",
    "/pooling",
    "/classify",
    "/v1/moderations",
    "/v1/images/generations",
    "/v1/audio/speech",
]


@pytest.mark.parametrize("path", PATHS)
async def test_r17_any_json_passes_to_any_path(world, path):
    """R17: whatever is posted reaches the endpoint byte for byte, in its order, but for the model's name."""
    await world.apply([route("r")], [("pool", {"model": "real"})])
    sent = b'{ "z":123456789012345678901234567890,"x":1.10, "model" : "m" ,"stream":null,"\\u00e4":[{}] }'
    assert await world.served_by(sent, path + "?a=1&b") == "pool"
    (call,) = world.endpoints["pool"].calls
    assert (call.target, call.body) == (path + "?a=1&b", sent.replace(b'"m"', b'"real"'))


async def test_r19_models_are_listed(world):
    """R19: every model and adapter, sorted, each also under its own path."""
    await world.apply([route("a", model="y", loraAdapters=["z"]), route("b", model="x")])
    client = await world.gateway.connect()
    client.send(b"GET /v1/models HTTP/1.1\r\nhost: g\r\n\r\n")
    listed = (await client.response()).json
    assert [model["id"] for model in listed["data"]] == ["x", "y", "z"]
    assert {model["owned_by"] for model in listed["data"]} == {"headgate"}
    client.send(b"GET /v1/models/z HTTP/1.1\r\nhost: g\r\n\r\n")
    assert (await client.response()).json == listed["data"][2]


async def test_r23_a_timeout_ends_an_attempt(world):
    """R23: an endpoint that sends no head within the timeout is given up, and no other is made to wait."""
    policy = {"timeout": "60s", "retry": {"attempts": 0}}
    await world.apply([route("r")], [("pool", {"trafficPolicy": policy})])
    timers, endpoint = world.gateway.timers, world.endpoints["pool"]
    endpoint.behave = None
    asking = asyncio.create_task(world.served_by())
    await endpoint.call()
    timers.end(60)
    assert await asking == (504, "upstream_timeout")
    assert len(endpoint.calls) == 1


async def test_r24_a_timeout_does_not_end_a_stream(world):
    """R24: once the head is there, a stream takes as long as it needs."""
    await world.apply([route("r")], [("pool", {"trafficPolicy": {"timeout": "60s"}})])
    timers, endpoint = world.gateway.timers, world.endpoints["pool"]
    endpoint.behave = None
    client = await world.gateway.connect()
    client.post(body(stream=True))
    call = await endpoint.call()
    assert timers.running(60)
    call.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    head = await client.head()
    timers.end(60)
    call.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
    assert (await client.read_body(head)).body == b"data: [DONE]\n\n"


USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}\n\n'
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("options", "sent", "is_shown"),
    [
        pytest.param(None, {"include_usage": True}, False, id="R25"),
        pytest.param({"include_usage": True}, {"include_usage": True}, True, id="R26"),
        pytest.param(
            {"continuous_usage_stats": True},
            {"continuous_usage_stats": True, "include_usage": True},
            False,
            id="R27",
        ),
    ],
)
async def test_usage_of_streams(world, options, sent, is_shown):
    """R25 to R27: usage is asked for beside the client's options, and shown only where it asked itself."""
    await world.apply([route("r")])
    endpoint = world.endpoints["pool"]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"

    def stream(call):
        call.write(head + USAGE + DONE)
        call.close()

    endpoint.behave = stream
    asked = body(stream=True, **({} if options is None else {"stream_options": options}))
    assert (await world.gateway.ask(asked)).body == (USAGE + DONE if is_shown else DONE)
    assert endpoint.calls[0].json["stream_options"] == sent
    assert re.search(r"tokens=3/1", world.gateway.log_lines()[0])


async def test_a_change_is_in_effect_at_once(world):
    """An edited route serves by its new rules with the next request."""
    client = await world.gateway.connect()
    for target in ("a", "b", "a"):
        await world.apply([route("r", rule(target))], ["a", "b"])
        client.post(json.dumps(body()).encode())
        assert (await client.response()).body.decode() == target
