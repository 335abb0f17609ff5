"""The acceptance cases of the Gateway API Inference Extension, by their ids.

Real objects, translated, and requests through sockets.
"""

import json
import random
from collections import Counter

import msgspec
import pytest

from headgate import api, fleet, routing, scheduling
from headgate.api import gie_v1, gie_v1alpha1

OLD = gie_v1alpha1.GROUP
POOL = api.ObjectRef(routing.INFERENCE_POOL_V1ALPHA1, "default", "pool")
NEW_POOL = api.ObjectRef(routing.INFERENCE_POOL, "default", "pool")


def metadata(name, age=0, **more):
    """Of two objects the one with the greater age is older."""
    created = f"2026-01-01T00:00:{59 - age:02}Z"
    return {"name": name, "namespace": "default", "creationTimestamp": created, **more}


def old_pool(name="pool"):
    spec = {"selector": {"app": name}, "targetPortNumber": 8000}
    return msgspec.convert({"metadata": metadata(name), "spec": spec}, gie_v1alpha1.InferencePool)


def new_pool(name="pool", **notes):
    named = {f"headgate.dev/{key}": value for key, value in notes.items()}
    spec = {"selector": {"matchLabels": {"app": name}}, "targetPorts": [{"number": 8000}]}
    return msgspec.convert(
        {"metadata": metadata(name, annotations=named), "spec": spec}, gie_v1.InferencePool
    )


def model(name, criticality="Default", age=0, pool="pool", group=OLD, model_name=None, **targets):
    """Keyword arguments are weights of targets."""
    weights = {each.replace("_", "-"): weight for each, weight in targets.items()}
    spec = {
        "modelName": model_name or name,
        "criticality": criticality,
        "poolRef": {"name": pool, "group": group},
        "targetModels": [{"name": each, "weight": weight} for each, weight in weights.items()],
    }
    return msgspec.convert({"metadata": metadata(name, age), "spec": spec}, api.InferenceModel)


def objective(name, priority, pool="pool", group=gie_v1.GROUP):
    spec = {"priority": priority, "poolRef": {"name": pool, "group": group}}
    return msgspec.convert({"metadata": metadata(name), "spec": spec}, api.InferenceObjective)


REFERENCE = (
    old_pool(),
    model("my-model", "Critical", my_model_12345=1),
    model("sql-lora", "Critical", sql_lora_1fdg2=100),
    model("sql-lora-sheddable", "Sheddable", sql_lora_1fdg3=1),
    model("direct-model", "Critical"),
)


class Noting(scheduling.Policy):
    """Any policy, with a note of what it is asked."""

    def __init__(self, policy):
        self.policy = policy
        self.uses_prefix = policy.uses_prefix
        self.seen = []

    def pick(self, request, candidates, now, rng):
        self.seen.append(request)
        return self.policy.pick(request, candidates, now, rng)

    def booked(self, request, choice, now):
        self.policy.booked(request, choice, now)


def pod(name, notes, app="pool", *, is_ready=True, **more):
    ready = {"type": "Ready", "status": "True" if is_ready else "False"}
    meta = metadata(name, labels={"app": app}, annotations=notes, **more)
    return msgspec.convert(
        {"metadata": meta, "status": {"podIP": "127.0.0.1", "conditions": [ready]}}, api.Pod
    )


class World:
    """A gateway over objects, with three endpoints for the Pods that the pools select."""

    def __init__(self, gateway, endpoints):
        self.gateway, self.endpoints = gateway, endpoints

    def apply(self, *objects, ready=3, deleted=()):
        """So many of the Pods are ready; those of the places `deleted` are on their way out."""

        def of(*kinds):
            return [obj for obj in objects if isinstance(obj, kinds)]

        pods = [self._pod(place, place < ready, place in deleted) for place in range(3)]
        pods += of(api.Pod)
        inference = routing.InferenceObjects(
            pools=of(gie_v1.InferencePool, gie_v1alpha1.InferencePool),
            models=of(api.InferenceModel),
            objectives=of(api.InferenceObjective),
        )
        self.gateway.shell.use(routing.translate(of(api.ModelRoute), [], pods, (), inference))
        self.gateway.shell.plane.is_ready = True

    def _pod(self, place, is_ready, is_deleted):
        notes = {"headgate.dev/address": f"127.0.0.1:{self.endpoints[place].port}"}
        more = {"deletionTimestamp": "2026-01-01T00:01:00Z"} if is_deleted else {}
        return pod(f"pod-{place}", notes, is_ready=is_ready, **more)

    def see(self, *readings, ref=POOL):
        """What the engines say of themselves, and go on to: waiting requests, KV usage, adapters in use."""
        pool = self.gateway.shell.plane.pools[ref]
        for load, (waiting, kv_usage, *adapters) in zip(pool.loads, readings, strict=True):
            reading = fleet.EngineReading(
                at=self.gateway.shell.now() + 3600,
                waiting=waiting,
                running=0,
                kv_usage=kv_usage,
                adapters_running=frozenset(adapters),
                max_adapters=4,
            )
            load.read(reading)
        pool.note_adapters()

    def note(self, ref=POOL):
        """Notes what the policy of the pool is asked."""
        pool = self.gateway.shell.plane.pools[ref]
        pool.policy = Noting(pool.policy)
        return pool.policy.seen

    async def ask(self, name, prompt="test", **headers):
        body = {"model": name, "prompt": prompt, "max_tokens": 100, "temperature": 0}
        return await self.gateway.ask(json.dumps(body, separators=(",", ":")).encode(), **headers)

    async def refusal(self, name, **headers):
        response = await self.ask(name, **headers)
        return response.status, response.json["error"]["code"]

    def served(self):
        """Place of the endpoint and what it was asked for, of each request so far."""
        calls = [(place, call) for place, each in enumerate(self.endpoints) for call in each.calls]
        return [(place, call.json["model"]) for place, call in calls]


def answer(call):
    """As an engine does: with the name that it was asked for."""
    body = json.dumps({"model": call.json["model"], "n": 1}).encode()
    call.answer(body, **{"content-type": "application/json"})


@pytest.fixture
async def world(start_gateway, start_endpoint):
    endpoints = [await start_endpoint() for _ in range(3)]
    for endpoint in endpoints:
        endpoint.behave = answer
    return World(await start_gateway(settings={"queue_objectives_from": "anyone"}), endpoints)


async def test_a8_a_target_is_asked_for_under_its_own_name(world):
    """The model of the body becomes the target's, with the right length, and the client's name comes back."""
    world.apply(*REFERENCE)
    response = await world.ask("my-model")
    ((place, asked),) = world.served()
    (call,) = world.endpoints[place].calls
    assert asked == "my-model-12345"
    assert call.header("content-length") == str(len(call.body))
    assert response.json == {"model": "my-model", "n": 1}
    assert response.header("content-length") == str(len(response.body))


async def test_a2_requests_go_where_their_adapter_is(world):
    """An adapter that an engine has loaded is asked for there, a body of 76 bytes."""
    world.apply(*REFERENCE)
    world.see((0, 0.2, "foo", "bar"), (0, 0.1, "foo", "sql-lora-1fdg2"), (10, 0.2, "foo", "bar"))
    await world.ask("sql-lora", "test2")
    assert world.served() == [(1, "sql-lora-1fdg2")]
    assert world.endpoints[1].calls[0].header("content-length") == "76"


async def test_b1_requests_go_where_little_waits(world):
    """B1: the shortest queue and the emptiest cache."""
    world.apply(*REFERENCE)
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    await world.ask("my-model")
    assert world.served() == [(1, "my-model-12345")]


async def test_b3_an_adapter_binds_more_than_free_cache(world):
    """B3: queues are alike, and the endpoint with the fullest cache has the adapter."""
    world.apply(*REFERENCE)
    world.see((10, 0.2, "foo", "bar"), (10, 0.4, "foo", "sql-lora-1fdg2"), (10, 0.3, "foo"))
    await world.ask("sql-lora")
    assert world.served() == [(1, "sql-lora-1fdg2")]


async def test_a_base_model_is_not_kept_on_few_endpoints(world):
    """Only what an engine says is an adapter is treated as one."""
    world.apply(*REFERENCE)
    seen = world.note()
    world.see(*[(0, 0.1, "sql-lora-1fdg2")] * 3)
    for name in ("sql-lora", "my-model", "direct-model"):
        await world.ask(name)
    assert [request.adapter for request in seen] == ["sql-lora-1fdg2", "", ""]


async def test_a_model_without_targets_keeps_its_name(world):
    """The body goes as it came."""
    world.apply(*REFERENCE)
    await world.ask("direct-model")
    assert [asked for _, asked in world.served()] == ["direct-model"]


async def test_a9_an_unknown_model_is_not_found(world):
    """Unless a pool takes what nobody else is for: then it passes untouched, under no label of its own."""
    world.apply(*REFERENCE)
    assert await world.refusal("unknown") == (404, "model_not_found")
    world.apply(*REFERENCE, new_pool(models="*"))
    assert (await world.ask("unknown")).status == 200
    assert (await world.ask("other-unknown")).status == 200
    assert {asked for _, asked in world.served()} == {"unknown", "other-unknown"}
    metric = "headgate_gateway_requests_total"
    assert world.gateway.metric(metric, model="unknown", pool="InferencePool/default/pool") == 2
    assert world.gateway.metric(metric, model="other-unknown") == 0
    lines = world.gateway.log_lines()
    assert ["model=other-unknown" in line for line in lines] == [False, False, True]


async def test_a11_and_a12_the_oldest_serves_until_it_is_deleted(world):
    """Requests follow the objects at once."""
    older = model("older", age=9, model_name="m", v1=1)
    younger = model("younger", model_name="m", v2=1)
    asked = Counter()
    for objects, expected in (((older, younger), "v1"), ((younger,), "v2"), ((younger, older), "v1")):
        world.apply(old_pool(), *objects)
        assert (await world.ask("m")).status == 200
        asked[expected] += 1
        assert Counter(name for _, name in world.served()) == asked


async def test_a15_the_same_name_in_another_pool_has_no_effect(world):
    """The older is asked, whatever becomes of the other's pool."""
    world.apply(
        old_pool(), model("ours", age=9, model_name="m"), model("theirs", model_name="m", pool="gone")
    )
    assert (await world.ask("m")).status == 200


async def test_a16_targets_share_by_weight(world):
    """20, 20 and 10 of 50, and each answer has the client's name."""
    world.apply(old_pool(), model("m", a=20, b=20, c=10))
    for _ in range(50):
        assert (await world.ask("m")).json["model"] == "m"
    assert Counter(asked for _, asked in world.served()) == {"a": 20, "b": 20, "c": 10}


async def test_the_access_log_tells_which_target_was_asked_for(start_gateway, start_endpoint):
    """Each request's own, also where one pool serves several targets."""
    endpoints = [await start_endpoint(behave=answer) for _ in range(3)]
    world = World(await start_gateway(settings={"logging_access_log": "json"}), endpoints)
    world.apply(old_pool(), model("m", a=1, b=1))
    for _ in range(2):
        await world.ask("m")
    lines = [json.loads(line) for line in world.gateway.log_lines()]
    assert sorted(line["upstream_model"] for line in lines) == ["a", "b"]
    assert {line["model_route"] for line in lines} == {"InferenceModel/default/m"}
    assert {(line["backend_type"], line["backend_name"]) for line in lines} == {
        ("inference_pool", "InferencePool.v1alpha1/default/pool")
    }


async def test_a_reserved_name_is_refused(world):
    """With the object that reserves it; the list of models does not have it."""
    world.apply(old_pool(), model("m", a=0))
    response = await world.ask("m")
    assert (response.status, response.json["error"]["code"]) == (404, "model_reserved")
    assert "no valid target model: InferenceModel default/m reserves the name 'm'" in response.body.decode()
    client = await world.gateway.connect()
    client.send(b"GET /v1/models HTTP/1.1\r\nhost: g\r\n\r\n")
    assert (await client.response()).json["data"] == []


async def test_a24_a_pool_that_is_not_there_yet_may_come(world):
    """503 while it is missing, and while it has no endpoint; headers say why, as the picker's do."""
    world.apply(model("m"))
    missing = await world.ask("m")
    assert (missing.status, missing.json["error"]["code"]) == (503, "pool_not_found")
    world.apply(old_pool(), model("m"), ready=0)
    empty = await world.ask("m")
    assert (empty.status, empty.json["error"]["code"]) == (503, "no_ready_endpoint")
    for response in (missing, empty):
        for name in ("x-headgate-dropped-reason", "x-llm-d-request-dropped-reason"):
            assert response.header(name) == "rejected-no-endpoints"
    world.apply(old_pool(), model("m"))
    assert (await world.ask("m")).status == 200


async def test_criticality_is_a_priority_of_three_levels(world):
    """Critical 1, Default 0, Sheddable -1."""
    world.apply(*REFERENCE, model("plain"))
    seen = world.note()
    for name in ("my-model", "plain", "sql-lora-sheddable"):
        await world.ask(name)
    assert [request.priority for request in seen] == [1, 0, -1]


@pytest.mark.parametrize(
    ("headers", "priority"),
    [
        pytest.param({"x-llm-d-inference-objective": "high"}, 10, id="by name"),
        pytest.param({"X-GATEWAY-INFERENCE-OBJECTIVE": "low"}, -10, id="B32"),
        pytest.param({"x-llm-d-inference-objective": "theirs"}, 1, id="B34 of another pool"),
        pytest.param({"x-llm-d-inference-objective": "old"}, 1, id="B34 of another group"),
        pytest.param({"x-llm-d-inference-objective": "unknown"}, 1, id="unknown"),
        pytest.param({}, 1, id="none"),
        pytest.param({"x-llm-d-inference-objective": ""}, 1, id="empty"),
        pytest.param(
            {"x-gateway-inference-objective": "low", "x-llm-d-inference-objective": "high"}, 10, id="both"
        ),
    ],
)
async def test_an_objective_goes_before_criticality(world, headers, priority):
    """If it is one of the pool's; else the model's criticality counts, as if none were named."""
    world.apply(
        new_pool(),
        model("m", "Critical", group=gie_v1.GROUP),
        objective("high", 10),
        objective("low", -10),
        objective("theirs", 5, pool="other"),
        objective("old", 5, group=OLD),
    )
    seen = world.note(NEW_POOL)
    await world.ask("m", **headers)
    assert [request.priority for request in seen] == [priority]


@pytest.mark.parametrize(("trusted", "priority"), [((), 0), (("127.0.0.0/8",), 10)])
async def test_objectives_are_left_to_trusted_clients(start_gateway, start_endpoint, trusted, priority):
    """Unless a setting says otherwise, as whoever names one decides the priority of a request."""
    endpoints = [await start_endpoint(behave=answer) for _ in range(3)]
    settings = {"clients_trusted_networks": trusted}
    world = World(await start_gateway(settings=settings), endpoints)
    world.apply(new_pool(models="m"), objective("high", 10))
    seen = world.note(NEW_POOL)
    await world.ask("m", **{"x-llm-d-inference-objective": "high"})
    assert [request.priority for request in seen] == [priority]


async def test_a_pool_is_reached_by_the_names_in_its_annotation(world):
    """And asked for by its own name of the model."""
    world.apply(new_pool(models="chat, code", model="org/base"))
    for name in ("chat", "code"):
        assert (await world.ask(name)).json["model"] == name
    assert [asked for _, asked in world.served()] == ["org/base"] * 2
    assert await world.refusal("org/base") == (404, "model_not_found")


async def test_b54_a_pod_that_is_not_ready_disappears_at_once(world):
    """Its requests in flight finish."""
    world.apply(old_pool(), model("m"), ready=1)
    world.endpoints[0].behave = None
    client = await world.gateway.connect()
    client.post({"model": "m", "prompt": "held"})
    call = await world.endpoints[0].call()
    world.apply(old_pool(), model("m"), ready=0)
    assert await world.refusal("m") == (503, "no_ready_endpoint")
    call.answer(b"late")
    assert (await client.response()).body == b"late"


async def test_b54_a_pod_that_is_deleted_disappears_at_once(world):
    """Though it is still ready: its requests in flight finish, and others go to the rest."""
    world.apply(old_pool(), model("m"), ready=2)
    world.endpoints[0].behave = None
    client = await world.gateway.connect()
    client.post({"model": "m", "prompt": "held"})
    call = await world.endpoints[0].call()
    world.apply(old_pool(), model("m"), ready=2, deleted=(0,))
    for _ in range(3):
        assert (await world.ask("m")).status == 200
    assert [place for place, _ in world.served()] == [0, 1, 1, 1]
    call.answer(b"late")
    assert (await client.response()).body == b"late"


@pytest.mark.parametrize(("active", "served"), [(None, {0, 1}), ("8001", {1}), ("8000", {0})])
async def test_b53_each_port_of_a_pod_serves_unless_it_says_otherwise(world, active, served):
    """Two ports are two endpoints; the annotation leaves those that it lists."""
    reached = ",".join(str(each.port) for each in world.endpoints[:2])
    notes = {"headgate.dev/port": reached} | ({"llm-d.ai/active-ports": active} if active else {})
    spec = {
        "selector": {"matchLabels": {"app": "ranks"}},
        "targetPorts": [{"number": 8000}, {"number": 8001}],
    }
    ranks = msgspec.convert({"metadata": metadata("ranks"), "spec": spec}, gie_v1.InferencePool)
    model_of_it = model("m", pool="ranks", group=gie_v1.GROUP)
    world.apply(ranks, model_of_it, pod("p", notes, "ranks"), ready=0)
    world.gateway.shell.plane.rng = random.Random(5)
    for _ in range(12):
        assert (await world.ask("m")).status == 200
    assert {place for place, _ in world.served()} == served


async def test_b45_and_b46_a_session_stays_on_its_pod_while_that_is_there(start_gateway, start_endpoint):
    """The token of an answer leads to the Pod that gave it; when it is deleted, another's takes its place."""
    endpoints = [await start_endpoint(behave=answer) for _ in range(3)]
    config = {
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "plugins": [{"type": "session-affinity-filter"}, {"type": "random-picker"}],
    }
    settings = {"scheduling_content": config, "scheduling_allow_experimental_plugins": True}
    world = World(await start_gateway(settings=settings), endpoints)
    world.gateway.shell.plane.rng = random.Random(3)
    world.apply(*REFERENCE)
    token = (await world.ask("my-model")).header("x-session-token")
    for _ in range(6):
        assert (await world.ask("my-model", x_session_token=token)).header("x-session-token") == token
    (place,) = {place for place, _ in world.served()}
    world.apply(*REFERENCE, deleted=(place,))
    moved = await world.ask("my-model", x_session_token=token)
    assert moved.header("x-session-token") not in (None, token)
    assert len(world.endpoints[place].calls) == 7


async def test_b52_a_request_that_is_cancelled_leaves_nothing_in_flight(world, eventually):
    """Before its answer has begun; the endpoint is free of it."""
    world.apply(*REFERENCE)
    world.endpoints[0].behave = None
    client = await world.gateway.connect()
    client.post({"model": "my-model", "prompt": "held", "stream": True})
    await world.endpoints[0].call()
    assert [load.requests for load in world.gateway.shell.plane.ledger.loads()] == [1, 0, 0]
    client.close()
    await eventually(lambda: world.gateway.settled == 1)
    assert [load.requests for load in world.gateway.shell.plane.ledger.loads()] == [0, 0, 0]


LOADED = "sql-lora-1fdg3"


@pytest.fixture
async def judging(start_gateway, start_endpoint):
    """A world in which nothing waits, and rooms are judged by what engines say, as in the reference."""
    endpoints = [await start_endpoint(behave=answer) for _ in range(3)]
    settings = {"queue_enabled": False, "queue_detector": "utilization-detector"}
    return World(await start_gateway(settings=settings), endpoints)


async def test_a4_sheddable_requests_are_shed_by_a_full_pool(judging):
    """A4: each engine is beyond 5 waiting requests or 80 % of its cache; B4: more important ones still go."""
    judging.apply(*REFERENCE)
    judging.see((6, 0.2, LOADED), (0, 0.85, LOADED), (10, 0.9, LOADED))
    response = await judging.ask("sql-lora-sheddable", "test4")
    assert (response.status, response.json["error"]["code"]) == (429, "queue_full")
    assert response.header("x-headgate-dropped-reason") == "rejected-saturated"
    assert (await judging.ask("sql-lora", "test4")).status == 200


async def test_a5_the_only_engine_with_room_serves(start_gateway, start_endpoint):
    """A5 by predicted work: the others' caches are nearly full, or their queues are longer."""
    endpoints = [await start_endpoint(behave=answer) for _ in range(3)]
    world = World(await start_gateway(settings={"queue_enabled": False}), endpoints)
    world.apply(*REFERENCE)
    world.see((4, 0.2, LOADED), (0, 0.85, LOADED), (10, 0.9, LOADED))
    assert (await world.ask("sql-lora-sheddable", "test5")).status == 200
    assert world.served() == [(0, LOADED)]
    assert world.endpoints[0].calls[0].header("content-length") == "76"


@pytest.mark.parametrize("cut", [None, 20])
async def test_a5_sheddable_requests_are_served_where_there_is_room(judging, cut):
    """A5, B6: by the mean of the engines, as the reference has it since; A6: however the body is cut."""
    judging.apply(*REFERENCE)
    judging.see((4, 0.2, LOADED), (0, 0.6, LOADED), (4, 0.7, LOADED))
    client = await judging.gateway.connect()
    body = {"model": "sql-lora-sheddable", "prompt": "test5", "max_tokens": 100, "temperature": 0}
    data = json.dumps(body, separators=(",", ":")).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ncontent-length: %d\r\n\r\n" % len(data)
    client.send(head + data[:cut])
    if cut is not None:
        client.send(data[cut:])
    assert (await client.response()).json["model"] == "sql-lora-sheddable"
    ((place, asked),) = judging.served()
    assert asked == LOADED
    assert judging.endpoints[place].calls[0].header("content-length") == "76"
