"""The acceptance cases of the Gateway API Inference Extension for endpoint pickers, by their ids."""

import base64
import json
from collections import Counter

import msgspec
import pytest
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from picker_world import (
    BUFFERED,
    NONE,
    OBJECTIVES,
    OLD,
    STREAMED,
    completion,
    model,
    objective,
    pod,
    pool,
    until,
)
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
from smg_grpc_proto.generated import vllm_engine_pb2 as engine

from headgate.api import gie_v1alpha1
from headgate.dataplane.settings import Queue, Scheduling

OTHERS_FULL = (6, 0.2), (0, 0.85), (10, 0.9)


def address(number):
    return f"192.168.1.{number}:8000"


POLICIES = {"predicted": Scheduling(), "the scorers of the reference": with_plugins(*SCORERS)}
by_policy = pytest.mark.parametrize("policy", POLICIES)
"""With the default policy, and with the plugins of the reference's own tests, each of weight 1."""


def dropped_reason(found):
    """The header of an immediate response."""
    headers = {each.header.key: each.header.raw_value for each in found.headers.set_headers}
    return headers.get("x-llm-d-request-dropped-reason")


@by_policy
async def test_b1_the_idle_endpoint_is_picked(picker, policy):
    """B1: of (3, .2) (0, .1) (10, .2) the second; both carriers have the same address. The request is counted
    as soon as it is picked for."""
    world = (await picker(scheduling=POLICIES[policy])).apply(pool(), *OBJECTIVES)
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    proxy = await world.ask(x_gateway_inference_objective="my-model")
    assert proxy.told.address == address(2)
    assert proxy.told.metadata == {"envoy.lb": {"x-gateway-destination-endpoint": address(2)}}
    assert proxy.told.body == completion()
    assert (proxy.told.ends, proxy.told.headers["content-length"]) == (1, str(len(completion())))
    assert proxy_life(world).decision.scheduled.priority == 2
    assert world.sample("inference_pool_ready_pods", name="pool") == 3
    named = {"priority": "2", "model_name": "my-model"}
    assert world.sample("llm_d_epp_request_total", **named) == 1
    await proxy.serve(b"{}")
    for prefix in ("llm_d_epp", "inference_objective"):
        assert world.sample(f"{prefix}_request_total", **named) == 1


def proxy_life(world):
    (stream,) = world.shell.streams
    return stream.life


@by_policy
async def test_b2_an_active_adapter_attracts_its_requests(picker, policy):
    """B2: the endpoint that has it and no queue."""
    world = (await picker(scheduling=POLICIES[policy])).apply(
        pool(), model("sql-lora", "Critical", sql_lora_1fdg2=1)
    )
    world.see((0, 0.2, "foo", "bar"), (0, 0.1, "foo", "sql-lora-1fdg2"), (10, 0.2, "foo", "bar"))
    proxy = await world.ask(completion("sql-lora"))
    assert proxy.told.address == address(2)


@by_policy
async def test_b3_affinity_beats_cache_usage(picker, policy):
    """B3: the queues are equal, and the adapter is on the fuller one."""
    world = (await picker(scheduling=POLICIES[policy])).apply(pool(), model("sql-lora", "Critical", target=1))
    world.see((10, 0.2, "foo", "bar"), (10, 0.4, "foo", "target"), (10, 0.3, "foo"), max_adapters=2)
    proxy = await world.ask(completion("sql-lora"))
    assert proxy.told.address == address(2)


async def test_b4_critical_requests_are_not_shed(picker):
    """B4: priority 2 goes through although all are busy, to the endpoint with the adapter."""
    world = (await picker(scheduling=with_plugins(*SCORERS))).apply(
        pool(), model("sql-lora", target=1), *OBJECTIVES
    )
    world.see((6, 0.2, "foo", "target"), (0, 0.85), (10, 0.9))
    proxy = await world.ask(completion("sql-lora"), x_gateway_inference_objective="sql-lora")
    assert proxy.told.address == address(1)
    assert proxy_life(world).decision.scheduled.priority == 2


async def test_b4_by_the_default_policy(world):
    """It is not shed either."""
    world.see(*OTHERS_FULL)
    proxy = await world.ask(x_gateway_inference_objective="sql-lora")
    assert proxy.told.address is not None


@pytest.mark.parametrize("cut", [1, 20, 40])
@by_policy
async def test_b6_a_body_in_two_parts_is_one(picker, policy, cut):
    """B6: a sheddable request; one reply to the headers, then the body; it ends once."""
    queue = Queue(enabled=False, detector="utilization-detector")
    world = await picker(queue=queue, scheduling=POLICIES[policy])
    world.apply(pool(), model("sql-lora-sheddable", "Sheddable", target=1), pod(1), pod(2))
    world.see((4, 0.2, "foo", "target"), (4, 0.85, "foo", "target"))
    proxy = await world.ask(completion("sql-lora-sheddable"), cut=cut)
    assert proxy_life(world).decision.scheduled.priority == -1
    assert proxy.told.address == address(1)
    assert proxy.told.body == completion("target")
    assert (proxy.told.ends, proxy.told.messages) == (1, 2)


async def test_b7_a_request_without_body_and_no_pods(picker):
    """B7: the text of the reference."""
    world = (await picker()).apply(pool(), pods=0)
    proxy = await world.stream()
    proxy.headers(ends=True, method="GET", path="/v1/models")
    found = await proxy.reply()
    assert found.status.code == 500
    assert found.body == b"inference error: Internal - no pods available in datastore"


async def test_requests_without_body_go_to_any_endpoint(world):
    """Each of them gets some."""
    seen = Counter()
    for _ in range(30):
        proxy = await world.stream()
        proxy.headers(ends=True, method="GET", path="/v1/models")
        message = await proxy.next()
        (header, *_) = message.request_headers.response.header_mutation.set_headers
        seen[header.header.raw_value.decode()] += 1
    assert seen.keys() == {address(1), address(2), address(3)}


@pytest.mark.parametrize(
    ("case", "subset", "picked"),
    [
        ("B10", [address(1), address(2), address(3)], 2),
        ("B11", [address(3)], 3),
        ("B15: a text", f"{address(3)}", 3),
        ("B15: with spaces", f" {address(3)} , {address(1)} ", 1),
        ("B15: without port", ["192.168.1.3"], 3),
        ("another port", ["192.168.1.3:9999"], 3),
        ("one of them exists", [address(9), address(1)], 1),
        ("B13: none", None, 2),
    ],
)
async def test_b10_to_b15_subsets(picker, case, subset, picked):
    """The endpoint with the least load of those that are allowed."""
    world = (await picker()).apply(pool(), model("my-model", target=1))
    world.see((0, 0.2), (0, 0.1, "foo", "target"), (10, 0.2))
    proxy = await world.ask(subset=subset)
    assert proxy.told.address == address(picked)


@pytest.mark.parametrize("subset", [[], "", [address(9)]])
async def test_b14_nobody_is_allowed(world, subset):
    """B14: 503, with the reason."""
    proxy = await world.ask(subset=subset)
    found = proxy.told
    assert found.status.code == 503
    told = b"inference error: ServiceUnavailable - failed to find endpoint candidates for serving the request"
    assert found.body == told
    assert dropped_reason(found) == b"rejected-no-endpoints"
    assert world.in_flight() == {1: 0, 2: 0, 3: 0}


@pytest.mark.parametrize("subset", [[], [address(9)]])
async def test_b14_nobody_is_allowed_for_a_request_without_body(world, subset):
    """B14: as well; that there are no Pods at all is another error (B7)."""
    proxy = await world.stream()
    proxy.headers(ends=True, method="GET", path="/v1/models", subset=subset)
    found = await proxy.reply()
    assert found.status.code == 503
    assert found.body.endswith(b"failed to find endpoint candidates for serving the request")
    assert dropped_reason(found) == b"rejected-no-endpoints"


async def test_the_subset_filter_can_be_off(picker):
    """--disable-endpoint-subset-filter."""
    world = (await picker(choices={"uses_subset": False})).apply(pool())
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    assert (await world.ask(subset=[])).told.address == address(2)


async def test_b16_other_bodies_are_routed_by_load(world):
    """B16: they stay as they are; the model is unknown, and the priority that of the objective."""
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    proxy = await world.ask(b"passthrough-parser", path="/anything", x_gateway_inference_objective="my-model")
    assert (proxy.told.address, proxy.told.body) == (address(2), b"passthrough-parser")
    assert proxy_life(world).decision.scheduled.priority == 2
    await proxy.serve(b"{}")
    assert world.sample("headgate_gateway_requests_total", model="unknown", code="200") == 1
    named = {"model_name": "", "target_model_name": "", "priority": "2"}
    assert world.sample("llm_d_epp_request_total", **named) == 1


@pytest.mark.parametrize(
    ("body", "path"), [(b"passthrough-parser", "/v1/completions"), (completion(), "/v1/completions")]
)
async def test_b16_with_the_parser_that_reads_nothing(picker, body, path):
    """B16: on paths of inference too, and whatever the body is."""
    world = (await picker(choices={"passes_bodies": True})).apply(
        pool(), model("my-model", target=1), *OBJECTIVES
    )
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    proxy = await world.ask(body, path=path, x_gateway_inference_objective="my-model")
    assert (proxy.told.address, proxy.told.body) == (address(2), body)
    named = {"model_name": "", "target_model_name": "", "priority": "2"}
    assert world.sample("llm_d_epp_request_total", **named) == 1


async def test_b21_weights_of_rewrites(picker):
    """B21: of a resource for all models."""
    world = (await picker()).apply(pool(), rewrite("all", 1, None, a=90, b=10))
    seen = Counter()
    for _ in range(100):
        proxy = await world.ask(completion("m"))
        seen[json.loads(proxy.told.body)["model"]] += 1
        proxy.call.cancel()
    assert abs(seen["a"] - 90) <= 1


async def test_b21_weights_of_targets(picker):
    """B21: 90 to 10, within one request."""
    world = (await picker()).apply(pool(), model("m", a=90, b=10))
    seen = Counter()
    for _ in range(100):
        proxy = await world.ask(completion("m"))
        seen[json.loads(proxy.told.body)["model"]] += 1
        proxy.call.cancel()
    assert abs(seen["a"] - 90) <= 1


async def test_b24_a_response_with_an_empty_end(world):
    """B24: one message with the whole body, and the counts in it are read."""
    proxy = await world.ask()
    body = b'{"model":"my-model","usage":{"prompt_tokens":11,"total_tokens":21,"completion_tokens":10}}'
    assert await proxy.serve(body, b"") == [body]
    assert world.sample("headgate_gateway_tokens_total", direction="output") == 10


async def test_b25_events_pass_one_by_one(world):
    """B25: three messages, and the counts of the last event are read."""
    proxy = await world.ask()
    events = (
        b"data: {}",
        b'data: {"usage":{"prompt_tokens":7,"total_tokens":17,"completion_tokens":10}}\ndata: [DONE]',
        b"",
    )
    assert await proxy.serve(*events, kind="text/event-stream") == list(events)
    assert world.sample("headgate_gateway_tokens_total", direction="input") == 7
    assert world.sample("headgate_gateway_tokens_total", direction="output") == 10
    assert world.sample("llm_d_epp_request_input_tokens_sum", model_name="my-model") == 7
    assert world.sample("llm_d_epp_request_output_tokens_sum", model_name="my-model") == 10


@pytest.mark.parametrize("at", [5, 20, 40, 60, 75])
async def test_b26_counts_cut_in_two_are_read(world, at):
    """B26: upstream loses them."""
    proxy = await world.ask()
    event = b'data: {"usage":{"prompt_tokens":7,"total_tokens":17,"completion_tokens":10}}\n\n'
    assert b"".join(await proxy.serve(event[:at], event[at:], b"", kind="text/event-stream")) == event
    assert world.sample("headgate_gateway_tokens_total", direction="output") == 10


@pytest.mark.parametrize("at", range(0, 60, 7))
async def test_b27_the_clients_name_is_put_back(picker, at):
    """B27: wherever the event is cut."""
    world = (await picker()).apply(pool(), model("my-model", target=1))
    proxy = await world.ask(completion(stream=True))
    assert json.loads(proxy.told.body)["model"] == "target"
    event = b'data: {"id":"1","model":"target","choices":[{"text":"target"}]}\n\n'
    parts = await proxy.serve(event[:at], event[at:], b"data: [DONE]\n\n", kind="text/event-stream")
    assert b"".join(parts) == event.replace(b"target", b"my-model", 1) + b"data: [DONE]\n\n"


async def test_the_clients_name_is_put_back_into_documents(picker):
    """Their length changes, and the head no longer says it."""
    world = (await picker()).apply(pool(), model("my-model", target=1))
    proxy = await world.ask()
    body = b'{"model":"target","choices":[{"text":"target"}]}'
    proxy.respond(content_type="application/json", content_length=str(len(body)))
    assert (await proxy.response_head()).removed == ["content-length"]
    for part in (body[:12], body[12:], b""):
        proxy.response_part(part, ends=not part)
    assert b"".join(await proxy.response_parts()) == body.replace(b"target", b"my-model", 1)


async def test_b29_the_end_of_a_body_may_come_twice(world):
    """B29: some versions of Envoy send it again."""
    proxy = await world.ask()
    proxy.body(b"", ends=True)
    proxy.body(completion(), ends=True)
    await proxy.silence()
    assert await proxy.serve(b"{}") == [b"{}"]


async def test_b31_other_bytes_stay(picker):
    """B31: a number beyond 2^53, the order of keys, and white space."""
    world = (await picker()).apply(pool(), model("my-model", target=1))
    body = b'{ "z":9007199254740993, "model" : "my-model","prompt":"<&>","a":1 }'
    proxy = await world.ask(body)
    assert proxy.told.body == body.replace(b'"my-model"', b'"target"')


async def test_a8_the_length_of_the_new_body(picker):
    """A8, A2: as in the reference."""
    world = (await picker()).apply(pool(), model("my-model", "Critical", my_model_v1=1))
    proxy = await world.ask(completion(prompt="hello"))
    assert proxy.told.headers["content-length"] == "73" == str(len(proxy.told.body))


async def test_b32_names_of_headers_have_no_case(world):
    """B32: HTTP/2 has lower-case names only; a proxy that sends others is read alike."""
    proxy = await world.ask(**{"X-GATEWAY-INFERENCE-OBJECTIVE": "my-model"})
    assert proxy.told.address
    assert proxy_life(world).decision.scheduled.priority == 2


@pytest.mark.parametrize("other", [objective("mine", 7, pool="other"), objective("mine", 7, group=OLD)])
async def test_b34_objectives_of_other_pools_do_not_count(picker, other):
    """B34: priority 0."""
    world = (await picker()).apply(pool(), other)
    await world.ask(x_gateway_inference_objective="mine")
    assert proxy_life(world).decision.scheduled.priority == 0


async def test_b36_requests_without_id_get_one(world):
    """B36: a UUID of version 4; one that there is stays."""
    proxy = await world.ask()
    assert UUID4.fullmatch(proxy.told.headers["x-request-id"])
    proxy = await world.ask(x_request_id="mine")
    assert "x-request-id" not in proxy.told.headers


async def test_b51_another_endpoint_served(world):
    """B51: the request is accounted for where it is, and its prompt is believed to be cached there."""
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    prompt = "a long prompt " * 300
    proxy = await world.ask(completion(prompt=prompt))
    assert proxy.told.address == address(2)
    assert world.in_flight() == {1: 0, 2: 1, 3: 0}
    proxy.respond(served=address(3), content_type="text/event-stream")
    await proxy.response_head()
    assert world.in_flight() == {1: 0, 2: 0, 3: 1}
    proxy.response_part(b"data: {}\n\n", ends=True)
    await proxy.response_parts()
    assert world.in_flight() == {1: 0, 2: 0, 3: 0}
    third = world.loads[2]
    assert third.started == 1
    assert world.shell.plane.prefixes.blocks(third) > 0


async def test_b51_by_the_upstream_address(world):
    """An attribute that any Envoy can send says the same."""
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    proxy = await world.ask()
    proxy.respond(attributes={"upstream.address": address(1)}, content_type="text/event-stream")
    await proxy.response_head()
    assert world.in_flight() == {1: 1, 2: 0, 3: 0}


async def test_a_failed_endpoint_is_blamed_if_the_proxy_tried_another(picker):
    """With fallbacks, the one that served was second in the list."""
    world = (await picker(choices={"fallbacks": 2})).apply(pool())
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    proxy = await world.ask()
    assert proxy.told.address.split(",") == [address(2), address(1), address(3)]
    proxy.respond(served=address(1), content_type="text/event-stream")
    await proxy.response_head()
    assert [load.failures for load in world.loads] == [0, 1, 0]
    assert world.in_flight() == {1: 1, 2: 0, 3: 0}


@pytest.mark.parametrize("phase", ["headers", "body", "asked", "head", "first part"])
@pytest.mark.parametrize("how", ["cancel", "half_close", "close"])
async def test_b52_a_request_that_is_cancelled_gives_everything_back(world, phase, how):
    """B52: in every phase, whether the proxy resets the stream, ends it, or loses the connection."""
    proxy = await world.stream()
    proxy.headers()
    if phase != "headers":
        proxy.body(completion()[:10], ends=False)
    if phase not in ("headers", "body"):
        proxy.body(completion()[10:])
        await proxy.reply()
    if phase in ("head", "first part"):
        proxy.respond(content_type="text/event-stream")
        await proxy.response_head()
    if phase == "first part":
        proxy.response_part(b"data: {}\n\n")
        await proxy.next()
    await until(lambda: world.server.statistics()["calls_in_progress"] == 1)
    if how == "close":
        world.clients[0].close()
    else:
        getattr(proxy.call, how)()
    await until(lambda: world.server.statistics()["calls_in_progress"] == 0)
    assert world.in_flight() == {1: 0, 2: 0, 3: 0}
    assert not world.shell.streams
    assert world.shell.bodies.held == 0


async def test_b53_each_port_is_an_endpoint(picker):
    """B53: except where the Pod says which ports it serves."""
    world = await picker()
    world.apply(pool(ports=(8000, 8001)), pod(1))
    seen = set()
    for _ in range(20):
        seen.add((await world.ask()).told.address)
    assert seen == {"192.168.1.1:8000", "192.168.1.1:8001"}
    world.apply(pool(ports=(8000, 8001)), pod(1, **{"llm-d.ai/active-ports": "8001"}))
    assert (await world.ask()).told.address == "192.168.1.1:8001"


@pytest.mark.parametrize("gone", [pod(2, is_ready=False), deleted(pod(2))], ids=["not ready", "deleted"])
async def test_b54_a_pod_that_is_not_ready_gets_no_more(world, gone):
    """B54: at once; the request that it has goes on."""
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    proxy = await world.ask()
    assert proxy.told.address == address(2)
    world.apply(pool(), pod(1), gone, pod(3))
    for _ in range(5):
        assert (await world.ask()).told.address != address(2)
    assert await proxy.serve(b"{}") == [b"{}"]


async def test_a4_sheddable_requests_are_shed(picker):
    """A4, F1: 429 with the text and the reason of the reference, if no endpoint has capacity."""
    queue = Queue(enabled=False, detector="utilization-detector")
    world = (await picker(queue=queue)).apply(
        pool(), model("sql-lora-sheddable", "Sheddable", sql_lora_1fdg3=1)
    )
    world.see((6, 0.2), (5, 0.85), (10, 0.9))
    found = (await world.ask(completion("sql-lora-sheddable"))).told
    assert found.status.code == 429
    told = b"inference error: ResourceExhausted - system saturated, sheddable request dropped"
    assert found.body == told
    headers = {each.header.key: each.header.raw_value for each in found.headers.set_headers}
    assert headers["x-llm-d-request-dropped-reason"] == b"rejected-saturated"
    for prefix in ("llm_d_epp", "inference_objective"):
        assert world.sample(f"{prefix}_request_total") == 0
        assert world.sample(f"{prefix}_request_error_total", priority="-1") == 1


async def test_a9_models_that_nobody_names(picker):
    """A9: passed to the endpoint, unless an InferenceModel leads to the pool; or as it is configured."""
    world = (await picker()).apply(pool())
    assert (await world.ask(completion("any"))).told.body == completion("any")
    world.apply(pool(), model("m"))
    found = (await world.ask(completion("any"))).told
    assert found.status.code == 404
    assert b"the name must be that of an InferenceModel or InferenceModelRewrite" in found.body
    world = (await picker(pools={"names": ("pool",), "unknown": "pass"})).apply(pool(), model("m"))
    assert (await world.ask(completion("any"))).told.body == completion("any")
    world = (await picker(pools={"names": ("pool",), "unknown": "reject"})).apply(pool())
    assert (await world.ask(completion("any"))).told.status.code == 404


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", b"inference error: BadRequest - the request body is not valid JSON"),
        (b'{"prompt":"x"}', b"inference error: BadRequest - model not found in request body"),
    ],
)
async def test_a10_bad_requests(world, body, told):
    """A10: 400."""
    found = (await world.ask(body)).told
    assert found.status.code == 400
    assert found.body.startswith(told)


async def test_a11_a12_the_oldest_model_serves(picker):
    """A11, A12, A15: until it is deleted; one of another pool has no effect."""
    world = await picker()
    old, young = model("old", age=9, model_name="m", a=1), model("young", age=1, model_name="m", b=1)
    other = model("other", age=20, model_name="m", pool="other", c=1)
    world.apply(pool(), pool("other"), other, old, young)
    assert json.loads((await world.ask(completion("m"))).told.body)["model"] == "a"
    world.apply(pool(), pool("other"), other, young)
    assert json.loads((await world.ask(completion("m"))).told.body)["model"] == "b"


async def test_a24_the_pool_does_not_exist_yet(picker):
    """A24: 503, whatever is asked for, and the picker is not ready."""
    world = (await picker()).apply()
    for path in ("/v1/completions", "/anything"):
        found = (await world.ask(path=path)).told
        assert found.status.code == 503
        assert found.body.endswith(b"failed to find endpoint candidates for serving the request")
        assert dropped_reason(found) == b"rejected-no-endpoints"
    assert not world.shell.is_ready
    world.apply(pool())
    assert world.shell.is_ready


async def test_before_the_objects_are_loaded(picker):
    """The stream fails, so that a proxy with FailOpen goes on without the picker."""
    world = await picker()
    proxy = await world.stream()
    proxy.headers()
    assert (await proxy.status).code == 14
    assert not world.shell.is_ready


async def test_pools_of_the_old_group(picker):
    """--pool-group inference.networking.x-k8s.io; its objectives name that group."""
    world = await picker(pools={"names": ("pool",), "group": OLD})
    spec = {"selector": {"app": "pool"}, "targetPortNumber": 8000}
    old = msgspec.convert(
        {"metadata": {"name": "pool", "namespace": "default"}, "spec": spec}, gie_v1alpha1.InferencePool
    )
    world.apply(old, pool(), objective("mine", 5, group=OLD))
    assert (await world.ask(x_gateway_inference_objective="mine")).told.address is not None
    assert proxy_life(world).decision.scheduled.priority == 5


async def test_one_picker_serves_several_pools(picker):
    """The model chooses, if InferenceModels name it."""
    world = await picker(pools={"names": ()})
    pods = pod(1, "a"), pod(2, "b")
    world.apply(pool("a"), pool("b"), *pods, model("one", pool="a"), model("two", pool="b"))
    assert (await world.ask(completion("one"))).told.address == address(1)
    assert (await world.ask(completion("two"))).told.address == address(2)


async def test_buffered_bodies(world):
    """The mode of the first versions: the headers are answered at once, everything else with the body."""
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    proxy = await world.stream(request_mode=BUFFERED, response_mode=BUFFERED)
    proxy.headers()
    first = await proxy.next()
    assert first.request_headers.response.clear_route_cache
    assert not first.request_headers.response.HasField("header_mutation")
    proxy.body(completion())
    told = await proxy.reply()
    assert (told.address, told.body) == (address(2), completion())
    assert told.metadata == {"envoy.lb": {"x-gateway-destination-endpoint": address(2)}}
    assert told.headers["content-length"] == str(len(completion()))
    proxy.respond(content_type="application/json")
    assert (await proxy.response_head()).headers["x-went-into-resp-headers"] == "true"
    proxy.response_part(b'{"usage":{"prompt_tokens":7,"completion_tokens":10}}', ends=True)
    assert not (await proxy.next()).response_body.response.HasField("body_mutation")
    assert world.sample("headgate_gateway_tokens_total", direction="output") == 10


async def test_buffered_bodies_with_trailers(picker):
    """Then the message with the body does not end the response, but it has all of it."""
    world = (await picker()).apply(pool(), model("my-model", target=1))
    proxy = await world.stream(request_mode=BUFFERED, response_mode=BUFFERED)
    proxy.headers()
    await proxy.next()
    proxy.body(completion(stream=True))
    await proxy.reply()
    proxy.respond(content_type="text/event-stream")
    await proxy.response_head()
    proxy.response_part(b'data: {"model":"target"}\n\ndata: [DONE]\n', ends=False)
    found = (await proxy.next()).response_body.response.body_mutation.body
    assert found == b'data: {"model":"my-model"}\n\ndata: [DONE]\n'
    proxy.send(response_trailers=pb.HttpTrailers())
    assert (await proxy.status).code == 0
    assert world.sample("headgate_gateway_requests_total", outcome="served") == 1


async def test_b17_a_header_renames_the_model(world):
    """B17: the endpoint gets the name, the client its own, and the metrics have both."""
    proxy = await world.ask(completion("my"), x_llm_d_model_name_rewrite="target")
    assert json.loads(proxy.told.body)["model"] == "target"
    body = b'{"model":"target"}'
    assert await proxy.serve(body) == [b'{"model":"my"}']
    named = {"model_name": "my", "target_model_name": "target"}
    assert world.sample("llm_d_epp_request_total", **named) == 1


async def test_b19_the_oldest_rewrite_counts(picker):
    """B19: of two for the same model; and an exact one before one for all models. It beats the header."""
    world = (await picker()).apply(
        pool(),
        rewrite("young", 1, "my", b=None),
        rewrite("old", 9, "my", a=None),
        rewrite("all", 20, None, c=None),
    )
    found = (await world.ask(completion("my"), x_llm_d_model_name_rewrite="d")).told
    assert json.loads(found.body)["model"] == "a"
    assert json.loads((await world.ask(completion("other"))).told.body)["model"] == "c"


async def test_a9_a_rewrite_makes_a_model_known(picker):
    """A9: models that an InferenceModelRewrite of the pool names are not unknown; nor is any if it names
    all."""
    mine = model("m")
    world = (await picker()).apply(pool(), mine, rewrite("named", 1, "my", a=None))
    assert json.loads((await world.ask(completion("my"))).told.body)["model"] == "a"
    assert (await world.ask(completion("other"))).told.status.code == 404
    world.apply(pool(), mine, rewrite("all", 1, None, b=None))
    assert json.loads((await world.ask(completion("other"))).told.body)["model"] == "b"
    rejecting = {"names": ("pool",), "unknown": "reject"}
    world = (await picker(pools=rejecting)).apply(pool(), rewrite("named", 1, "my", a=None))
    assert (await world.ask(completion("my"))).told.status.code == 404


async def pairs(picker, scheduling=None, **notes):
    """Two endpoints that prefill, and two that decode."""
    world = await picker(scheduling=scheduling or Scheduling())
    return world.apply(pool(**notes), *pairs_of([pod(number) for number in (1, 2, 3, 4)]))


LONG = completion(prompt="a long prompt " * 400)


@pytest.mark.parametrize("connector", ["nixl", "mooncake"])
async def test_b47_a_sidecar_is_told_who_prefills(picker, connector):
    """B47: the decoding endpoint gets the request as it is; both are booked, and nothing is left."""
    world = await pairs(picker, **{"kv-connector": connector})
    proxy = await world.ask(LONG)
    decoding, prefilling = proxy.told.address, proxy.told.headers["x-prefiller-host-port"]
    assert decoding in (address(3), address(4))
    assert prefilling in (address(1), address(2))
    assert proxy.told.body == LONG
    assert sum(world.in_flight().values()) == 2
    proxy.respond(content_type="text/event-stream")
    await proxy.response_head()
    proxy.response_part(b"data: {}\n\n")
    await proxy.next()
    assert sum(world.in_flight().values()) == 1
    proxy.response_part(b"", ends=True)
    await proxy.response_parts()
    assert sum(world.in_flight().values()) == 0


async def test_b47_both_phases_keep_their_session(picker):
    """B47: each has a token of its own, which pins its endpoint."""
    section = sessions_of_pairs({"prefill": "prefix-based-pd-decider"})
    world = await pairs(picker, scheduling=section)
    proxy = await world.ask(prompt(0))
    both = proxy.told.address, proxy.told.headers["x-prefiller-host-port"]
    proxy.respond(content_type="application/json")
    head = (await proxy.response_head()).headers
    names = "x-session-token", "x-session-token-prefill"
    tokens = {name: head[name] for name in names}
    assert len(set(tokens.values())) == 2
    for number in range(1, 6):
        proxy = await world.ask(prompt(number), **tokens)
        assert (proxy.told.address, proxy.told.headers["x-prefiller-host-port"]) == both
        proxy.respond(content_type="application/json")
        head = (await proxy.response_head()).headers
        assert {name: head[name] for name in names} == tokens


async def test_b48_without_a_decider_nothing_is_prefilled_elsewhere(picker):
    """B48: no header for a sidecar, and no token of the phase."""
    world = await pairs(picker, scheduling=sessions_of_pairs({}))
    proxy = await world.ask(prompt(0))
    assert "x-prefiller-host-port" not in proxy.told.headers
    proxy.respond(content_type="application/json")
    head = (await proxy.response_head()).headers
    assert "x-session-token" in head
    assert "x-session-token-prefill" not in head


async def test_b48_short_prompts_are_prefilled_where_they_are_decoded(picker):
    """B48: then there is no prefiller."""
    world = await pairs(picker)
    proxy = await world.ask(completion())
    assert "x-prefiller-host-port" not in proxy.told.headers
    assert await proxy.serve(b"{}") == [b"{}"]
    assert sum(world.in_flight().values()) == 0


@pytest.mark.parametrize("ends", ["cancel", "error", "complete"])
async def test_prefills_end_with_their_requests(picker, ends):
    """However they end, before the first byte of the response."""
    world = await pairs(picker)
    proxy = await world.ask(LONG)
    if ends == "cancel":
        proxy.call.cancel()
    else:
        proxy.respond(500 if ends == "error" else 200, ends=True)
    await until(lambda: sum(world.in_flight().values()) == 0)


@pytest.mark.parametrize("kind", ["session-affinity-filter", "session-affinity-scorer"])
async def test_b45_b46_sessions(picker, kind):
    """B45: the first response has a token, which leads to the same endpoint. B46: if its Pod is gone, another
    endpoint serves, with another token."""
    world = (await picker(scheduling=with_plugins(kind))).apply(pool())
    proxy = await world.ask()
    first = proxy.told.address
    proxy.respond(content_type="application/json")
    token = (await proxy.response_head()).headers["x-session-token"]
    number = int(first.split(":")[0].rpartition(".")[2])
    assert base64.b64decode(token).decode() == f"default/pod-{number}"
    for _ in range(5):
        assert (await world.ask(x_session_token=token)).told.address == first
    world.apply(pool(), *(pod(each) for each in (1, 2, 3) if each != number))
    proxy = await world.ask(x_session_token=token)
    assert proxy.told.address != first
    proxy.respond(content_type="application/json")
    assert (await proxy.response_head()).headers["x-session-token"] != token


async def test_b43_scores_are_not_told(world):
    """B43: without a flag for it, the metadata have no scores."""
    proxy = await world.ask()
    assert list(proxy.told.metadata) == ["envoy.lb"]
    assert list(proxy.told.metadata["envoy.lb"]) == ["x-gateway-destination-endpoint"]


SCORES = "x-gateway-destination-endpoint-scores"


@by_policy
async def test_scores_are_told(picker, policy):
    """With --emit-endpoint-scores: of all endpoints, the greatest being the picked one; in both modes."""
    world = (await picker(choices={"emits_scores": True}, scheduling=POLICIES[policy])).apply(pool())
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    proxy = await world.ask()
    told = proxy.told.metadata["envoy.lb"]
    scores = told[SCORES]
    assert scores.keys() == {address(1), address(2), address(3)}
    assert max(scores, key=scores.get) == told["x-gateway-destination-endpoint"] == address(2)


async def test_policies_without_scores_tell_none(picker):
    """Then the metadata are as without the flag."""
    world = (await picker(choices={"emits_scores": True}, scheduling=Scheduling(policy="random"))).apply(
        pool()
    )
    assert list((await world.ask()).told.metadata["envoy.lb"]) == ["x-gateway-destination-endpoint"]


# -- flow control


async def test_f10_requests_wait_for_an_endpoint(picker):
    """F9, F10: a request is held while the pool is empty, and sent when a Pod appears; or refused in time."""
    world = (await picker(queue=Queue(no_endpoint_wait_s=60))).apply(pool(), pods=0)
    proxy = await world.stream()
    proxy.headers()
    proxy.body(completion())
    await until(lambda: world.shell.queues.held == 1)
    await proxy.silence()
    world.apply(pool())
    assert (await proxy.reply()).address is not None
    world = (await picker(queue=Queue(no_endpoint_wait_s=0.05))).apply(pool(), pods=0)
    found = (await world.ask()).told
    assert found.status.code == 503
    headers = {each.header.key: each.header.raw_value for each in found.headers.set_headers}
    assert headers["x-llm-d-request-dropped-reason"] == b"rejected-no-endpoints"


async def test_f8_requests_wait_for_capacity(picker):
    """F8, F11: longer than its time in the queue is too long; a client that leaves is no longer queued."""
    queue = Queue(detector="concurrency-detector", max_in_flight=1, ttl_s=0)
    world = (await picker(queue=queue)).apply(pool(), pod(1))
    first = await world.ask()
    left = await world.stream()
    left.headers()
    left.body(completion())
    await until(lambda: world.shell.queues.held == 1)
    await left.silence()
    left.call.cancel()
    await until(lambda: world.shell.queues.held == 0)
    second = await world.stream()
    second.headers()
    second.body(completion())
    await until(lambda: world.shell.queues.held == 1)
    await second.silence()
    await first.serve(b"{}")
    assert (await second.reply()).address is not None
    world = (await picker(queue=msgspec.structs.replace(queue, ttl_s=0.05))).apply(pool(), pod(1))
    await world.ask()
    found = (await world.ask()).told
    assert found.status.code == 429
    headers = {each.header.key: each.header.raw_value for each in found.headers.set_headers}
    assert headers["x-llm-d-request-dropped-reason"] == b"rejected-ttl-expired"


async def test_flows_are_fairness_ids(picker):
    """The header of the reference names them."""
    queue = Queue(
        detector="concurrency-detector", max_in_flight=1, objectives_from="anyone", fairness_ids_from="anyone"
    )
    world = (await picker(queue=queue)).apply(pool(), pod(1))
    await world.ask()
    for flow in ("a", "b"):
        proxy = await world.stream()
        proxy.headers(x_gateway_inference_fairness_id=flow)
        proxy.body(completion())
    await until(lambda: world.shell.queues.held == 2)
    (shown,) = world.shell.queues.shown()["InferencePool/default/pool"]
    flows = [flow.name for band in shown.queue.bands for flow in band.flows]
    assert sorted(flows) == ["a", "b"]


# -- what the reference has no case for


@pytest.mark.parametrize("path", ["/v1/completions?a=b", "/team/v1/completions", None])
async def test_paths_may_have_a_prefix(picker, path):
    """The proxy may remove it later; without a path, it is that of completions."""
    world = (await picker()).apply(pool(), model("my-model", target=1))
    proxy = await world.ask(path=path, **{":path": path})
    assert json.loads(proxy.told.body)["model"] == "target"


async def test_errors_in_the_format_of_openai(picker):
    """--error-format openai; on Anthropic's path in its format."""
    world = (await picker(choices={"error_format": "openai"})).apply(pool(), model("m"))
    found = (await world.ask(completion("other"))).told
    assert json.loads(found.body)["error"]["code"] == "model_not_found"
    found = (await world.ask(completion("other"), path="/v1/messages")).told
    assert json.loads(found.body)["error"]["type"] == "not_found_error"
    for body in (completion("other"), b'{"prompt":"x"}'):  # behind a proxy, that is the list of one engine
        assert b"/v1/models" not in (await world.ask(body)).told.body


async def test_the_decision_is_explained(world):
    """To trusted clients that ask for it, in the response or in the refusal, as by the gateway."""
    asks = {"x_headgate_explain": "1", "x_forwarded_for": "8.8.8.8, 127.0.0.1"}
    proxy = await world.ask(**asks)
    proxy.respond(content_type="application/json")
    told = (await proxy.response_head()).headers["x-headgate-decision"]
    assert f"address={proxy.told.address}; " in told
    assert "attempts=1" in told
    proxy = await world.ask(b"{", **asks)
    headers = {each.header.key: each.header.raw_value for each in proxy.told.headers.set_headers}
    assert headers["x-headgate-decision"].endswith(b"refused=invalid_json")


@pytest.mark.parametrize(
    ("source", "is_told"), [("127.0.0.1:99", True), ("[::1]:99", True), ("8.8.8.8:99", False)]
)
async def test_the_proxy_says_who_the_client_is(world, source, is_told):
    """By an attribute, whatever the headers are."""
    asks = {"x_headgate_explain": "1", "x_forwarded_for": "127.0.0.1"}
    proxy = await world.ask(attributes={"source.address": source}, **asks)
    proxy.respond(content_type="application/json")
    assert ("x-headgate-decision" in (await proxy.response_head()).headers) is is_told


@pytest.mark.parametrize("chain", [None, "", "127.0.0.1, 8.8.8.8", "127.0.0.1, unknown", "10.0.0.7"])
async def test_the_decision_is_explained_to_nobody_else(picker, chain):
    """A client without a known address, or from another network, learns nothing."""
    world = (await picker()).apply(pool())
    asks = {"x_headgate_explain": "1", "x_forwarded_for": chain}
    proxy = await world.ask(**asks)
    proxy.respond(content_type="application/json")
    assert "x-headgate-decision" not in (await proxy.response_head()).headers
    found = (await world.ask(b"{", **asks)).told
    assert "x-headgate-decision" not in [each.header.key for each in found.headers.set_headers]
    world = (await picker(choices={"explains_to": ("10.0.0.0/8",)})).apply(pool())
    proxy = await world.ask(**asks)
    proxy.respond(content_type="application/json")
    assert ("x-headgate-decision" in (await proxy.response_head()).headers) is (chain == "10.0.0.7")


async def test_bodies_that_are_too_long(picker):
    """413, before the rest of it comes; and nothing stays in memory."""
    world = (await picker(choices={"max_body_bytes": 2000})).apply(pool())
    proxy = await world.stream()
    proxy.headers()
    proxy.body(b"x" * 1500, ends=False)
    proxy.body(b"x" * 1500, ends=False)
    assert (await proxy.reply()).status.code == 413
    assert world.shell.bodies.held == 0


async def test_compressed_bodies_are_refused(world):
    """415: the picker reads bodies, and does not inflate them."""
    assert (await world.ask(content_encoding="gzip")).told.status.code == 415


@pytest.mark.parametrize("mode", [STREAMED, 3])
async def test_modes_that_send_the_headers_too_early(world, mode):
    """The stream fails, with what to configure."""
    proxy = await world.stream(request_mode=mode)
    proxy.headers()
    status = await proxy.status
    assert status.code == 9
    assert "use FULL_DUPLEX_STREAMED or BUFFERED" in status.message


async def test_requests_whose_body_is_not_sent(world):
    """request_body_mode NONE: the endpoint with the least load gets it, and its response is accounted for."""
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    proxy = await world.stream(request_mode=NONE)
    proxy.headers()
    assert (await proxy.reply()).address == address(2)
    assert world.in_flight() == {1: 0, 2: 1, 3: 0}
    assert await proxy.serve(b"{}") == [b"{}"]
    assert world.in_flight() == {1: 0, 2: 0, 3: 0}


async def test_responses_whose_body_is_not_sent(picker):
    """response_body_mode NONE: the request is over with the stream, and counts are not asked for."""
    world = (await picker()).apply(pool())
    proxy = await world.stream(response_mode=NONE)
    await proxy.ask(completion(stream=True))
    assert proxy.told.body == completion(stream=True)
    proxy.respond(content_type="text/event-stream")
    await proxy.response_head()
    assert sum(world.in_flight().values()) == 1
    proxy.call.half_close()
    assert (await proxy.status).code == 0
    assert sum(world.in_flight().values()) == 0
    assert world.sample("headgate_gateway_requests_total", outcome="served") == 1


@pytest.mark.parametrize("status", [401, 500, 503])
async def test_endpoints_that_fail_are_ejected(world, status):
    """One whose responses are errors, while others serve, soon gets no more requests."""
    seen, now = Counter(), world.shell.now()
    for number in range(60):
        world.shell.now = lambda at=now + number / 100: at
        proxy = await world.ask()
        seen[proxy.told.address] += 1
        fails = proxy.told.address == address(2)
        await proxy.serve(b"{}", status=status if fails else 200)
    assert 0 < seen[address(2)] <= 12
    for _ in range(5):
        assert (await world.ask()).told.address != address(2)


# -- gRPC


def framed(message):
    data = message.SerializeToString()
    return b"\0" + len(data).to_bytes(4, "big") + data


def generate(tokens=range(2000), *, stream=False):
    found = engine.GenerateRequest(request_id="1", stream=stream)
    found.tokenized.input_ids.extend(tokens)
    found.sampling_params.max_tokens = 50
    return framed(found)


GRPC = {
    "content_type": "application/grpc",
    "x_llm_d_inference_objective": "inference-objective-with-priority-4",
}
SERVICE = "/vllm.grpc.engine.VllmEngine"


@pytest.mark.parametrize("stream", [False, True])
async def test_b38_calls_to_generate(world, stream):
    """B38: picked by load, with the number of tokens that the prompt has; counts are in the last message."""
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    body = generate(stream=stream)
    proxy = await world.ask(body, path=f"{SERVICE}/Generate", **GRPC)
    assert (proxy.told.address, proxy.told.body) == (address(2), body)
    decision = proxy_life(world).decision
    assert (decision.scheduled.prompt_tokens, decision.stream) == (2000, stream)
    chunk = engine.GenerateStreamChunk(prompt_tokens=2000, completion_tokens=3)
    complete = engine.GenerateComplete(prompt_tokens=2000, completion_tokens=7, cached_tokens=16)
    parts = [framed(engine.GenerateResponse(chunk=chunk)), framed(engine.GenerateResponse(complete=complete))]
    whole = b"".join(parts)
    proxy.respond(content_type="application/grpc")
    await proxy.response_head()
    for at in range(0, len(whole), 11):
        proxy.response_part(whole[at : at + 11])
    proxy.send(response_trailers=pb.HttpTrailers())
    *told, last = await proxy.response_parts()
    assert (b"".join(told), last) == (whole, "trailers")
    named = {"model_name": "", "target_model_name": "", "priority": "4"}
    assert world.sample("llm_d_epp_request_total", **named) == 1
    assert world.sample("llm_d_epp_request_output_tokens_sum", **named) == 7
    assert world.shell.plane.prefixes.blocks(world.loads[1]) > 0


async def test_b38_calls_to_embed(world):
    """B38: as well."""
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    message = engine.EmbedRequest(request_id="1")
    message.tokenized.input_ids.extend(range(300))
    proxy = await world.ask(framed(message), path=f"{SERVICE}/Embed", **GRPC)
    assert proxy.told.address == address(2)
    assert proxy_life(world).decision.scheduled.prompt_tokens == 300
    named = {"model_name": "", "target_model_name": "", "priority": "4"}
    assert world.sample("llm_d_epp_request_total", **named) == 1
    whole = framed(engine.EmbedResponse(embedding=[0.5] * 8, prompt_tokens=300))
    proxy.respond(content_type="application/grpc")
    await proxy.response_head()
    proxy.response_part(whole)
    proxy.send(response_trailers=pb.HttpTrailers())
    assert await proxy.response_parts() == [whole, "trailers"]


async def test_b41_other_bytes_pass(world):
    """B41: in both directions."""
    proxy = await world.ask(b"\0\0\0\0\5hello", path=f"{SERVICE}/Generate", **GRPC)
    assert proxy.told.body == b"\0\0\0\0\5hello"
    proxy.respond(content_type="application/grpc")
    await proxy.response_head()
    proxy.response_part(b"\xff\xff\xff\xff\xffnonsense")
    proxy.send(response_trailers=pb.HttpTrailers())
    assert await proxy.response_parts() == [b"\xff\xff\xff\xff\xffnonsense", "trailers"]


async def test_calls_that_fail_at_once_count_as_failures(world):
    """Their status is in a header of the response, whose HTTP status is 200."""
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    proxy = await world.ask(generate(), path=f"{SERVICE}/Generate", **GRPC)
    proxy.respond(ends=True, content_type="application/grpc", grpc_status="14")
    await proxy.response_head()
    await proxy.status
    assert world.sample("llm_d_epp_request_error_total", error_code="status_503") == 1
