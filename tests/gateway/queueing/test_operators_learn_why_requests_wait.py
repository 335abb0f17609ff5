"""Explanations say in advance whether and why a request would be queued; responses, how it was."""

import math

import pytest

from headgate.cli.route import rendering
from headgate.dataplane.queueing import gauges, metrics
from headgate.gateway import explaining
from headgate.requests.queueing import kinds
from headgate.telemetry import LabelValues

BODY = b'{"model": "m", "prompt": "hello"}'


def explained(pool, body=BODY):
    view = explaining.View.of_plane(pool.gateway.shell.plane, pool.gateway.shell.now())
    return explaining.explain(view, "/v1/completions", [], body).decided


async def test_a_request_that_would_go_at_once(pool):
    """Nothing is said of waiting."""
    assert explained(pool).waits == ""


async def test_a_pool_without_room(pool, endpoint):
    """Its saturation says so, and once somebody waits, how many are before."""
    await pool.ask()
    await endpoint.call()
    assert explained(pool).waits == "the pool has no capacity: its saturation is 1.00"
    await pool.wait()
    assert explained(pool).waits == "1 wait before it"
    assert pool.queue.held == 1


async def test_a_pool_without_endpoints(start_pool):
    """How long one is waited for."""
    pool = await start_pool(queue_no_endpoint_wait_s=45.0)
    pool.gateway.serve([])
    assert explained(pool).waits == "no endpoint is ready: it waits up to 45 s for one"
    found = explaining.explain(
        explaining.View.of_plane(pool.gateway.shell.plane, pool.gateway.shell.now()),
        "/v1/completions",
        [],
        BODY,
    )
    assert "\nIf its wait times out, it would be rejected:\n    HTTP 503" in rendering.as_text(found)


async def test_a_pool_that_will_never_have_room(pool, monkeypatch):
    """Its saturation is a number that JSON can have."""
    monkeypatch.setattr(type(pool.queue.room.capacity), "saturation", lambda self, now: math.inf)
    (shown,) = (await pool.page("/debug/flow"))["default/pool"]
    assert shown["queue"]["saturation"] == 1000.0


async def test_without_flow_control_nothing_waits(start_pool, endpoint):
    """Whatever the pool has room for."""
    pool = await start_pool(queue_enabled=False)
    await pool.ask()
    await endpoint.call()
    assert explained(pool).waits == ""


async def test_the_decision_tells_of_the_wait(start_pool, endpoint):
    """To a trusted client that asks for it."""
    pool = await start_pool(clients_trusted_networks=("127.0.0.0/8",))
    await pool.ask()
    first = await endpoint.call()
    client = await pool.wait(
        x_headgate_explain="1", x_headgate_fairness_id="team-a", x_llm_d_inference_objective="2"
    )
    first.answer(b"{}")
    await pool.served()
    told = dict(
        pair.split("=", 1) for pair in (await client.response()).header("x-headgate-decision").split("; ")
    )
    assert (told["flow"], told["priority"], told["queued"][-2:]) == ("team-a", "2", "ms")


async def test_a_refusal_tells_why_it_was_dropped(start_pool, endpoint):
    """In the same line."""
    pool = await start_pool(clients_trusted_networks=("127.0.0.0/8",), queue_ttl_s=0.05)
    await pool.ask()
    await endpoint.call()
    response = await pool.gateway.ask(x_headgate_explain="1")
    told = response.header("x-headgate-decision")
    assert told.endswith("refused=queue_timeout; dropped=rejected-ttl-expired")


async def test_the_share_of_each_bound_is_measured(start_pool, endpoint):
    """Of requests and bytes, of a priority and of all; a bound that is none has no share."""
    name = "headgate_gateway_flow_control_"
    bounds = {"queue_max_requests": 10, "queue_max_bytes": 10_000, "queue_band_max_requests": 4}
    pool = await start_pool(**bounds, queue_band_max_bytes=5_000)
    await pool.ask()
    await endpoint.call()
    for priority in ("1", "0"):
        await pool.wait(x_llm_d_inference_objective=priority)
    size = pool.gateway.metric(f"{name}queue_bytes", priority="1")
    assert size > 0
    assert pool.gateway.metric(f"{name}capacity_utilization_requests", priority="1") == 0.25
    assert pool.gateway.metric(f"{name}capacity_utilization_bytes", priority="1") == size / 5_000
    assert pool.gateway.metric(f"{name}global_capacity_utilization_requests") == 0.2
    assert pool.gateway.metric(f"{name}global_capacity_utilization_bytes") == 2 * size / 10_000
    settings = pool.gateway.shell.settings.replace(queue_max_requests=0, queue_band_max_bytes=0)
    pool.gateway.shell.change(settings)
    told = pool.gateway.registry.render().decode()
    assert f"\n{name}global_capacity_utilization_requests{{" not in told
    assert f"\n{name}capacity_utilization_bytes{{" not in told


NAME = "headgate_gateway_flow_control_"
OF = {"pool": "default/pool", "priority": "1", "flow": "team-a", "model": "m", "target_model": "served"}


async def test_waits_are_measured_by_whose_they_are_and_for_which_model(start_pool, endpoint):
    """While they last, and when they are over."""
    pool = await start_pool()
    pool.gateway.serve([endpoint], model="served")
    await pool.ask()
    first = await endpoint.call()
    await pool.wait(x_headgate_fairness_id="team-a", x_llm_d_inference_objective="1")
    assert pool.gateway.metric(f"{NAME}queue_size", **OF) == 1
    assert pool.gateway.metric(f"{NAME}queue_bytes", **OF) > 0
    assert pool.gateway.metric(f"{NAME}request_queue_duration_seconds_count") == 0
    first.answer(b"{}")
    await pool.served()
    waited = f"{NAME}request_queue_duration_seconds_count"
    assert pool.gateway.metric(waited, outcome="dispatched", **OF) == 1
    assert pool.gateway.metric(f"{NAME}queue_size") == 0


async def test_names_that_clients_make_up_have_no_series_of_their_own(start_pool, endpoint, monkeypatch):
    """Beyond the first, of flows and of models for which there is a route only as there is one for all."""
    monkeypatch.setattr(gauges, "MAX_FLOWS", 1)
    pool = await start_pool()
    pool.gateway.recorder.waits._flows = LabelValues(1)
    route = pool.gateway.shell.plane.snapshot.models["m"][0]
    monkeypatch.setattr(type(route), "takes_unknown", True)
    await pool.ask()
    await endpoint.call()
    for flow in ("a", "a", "b", "c"):
        await pool.wait(x_headgate_fairness_id=flow)
    sizes = {flow: pool.gateway.metric(f"{NAME}queue_size", flow=flow) for flow in ("a", "b", "other")}
    assert sizes == {"a": 2, "b": 0, "other": 2}
    assert pool.gateway.metric(f"{NAME}queue_size", model="unknown", target_model="unknown") == 4
    assert pool.gateway.metric(f"{NAME}request_enqueue_duration_seconds_count", flow="other") == 2


async def test_what_the_queue_itself_takes_is_measured_where_requests_wait(start_pool, endpoint):
    """To find a place, and to look who goes; a request that goes at once is in neither."""
    pool = await start_pool(queue_max_requests=1)
    entered, looks = f"{NAME}request_enqueue_duration_seconds", f"{NAME}dispatch_cycle_duration_seconds"
    await pool.ask()
    await endpoint.call()
    assert pool.gateway.metric(f"{entered}_count") == pool.gateway.metric(f"{looks}_count") == 0
    await pool.wait(x_headgate_fairness_id="team-a")
    assert (await pool.gateway.ask()).status == 429
    assert pool.gateway.metric(f"{entered}_count", outcome="held", flow="team-a", priority="0") == 1
    assert pool.gateway.metric(f"{entered}_count", outcome="rejected-saturated") == 1
    assert pool.gateway.metric(f"{looks}_count") >= 1
    assert pool.gateway.metric(f"{looks}_sum") > 0


@pytest.mark.parametrize(
    ("detector", "stale"), [("utilization-detector", 1), ("predicted-work", 1), ("concurrency-detector", 0)]
)
async def test_endpoints_of_which_nothing_fresh_is_known_are_counted(start_pool, detector, stale):
    """By detectors that go by readings; the others miss nothing."""
    pool = await start_pool(queue_detector=detector)
    assert pool.gateway.metric(f"{NAME}stale_endpoints", detector=detector) == stale
    assert pool.gateway.metric(f"{NAME}stale_endpoints") == stale


async def test_series_of_models_that_are_gone_end(start_pool, endpoint):
    """As all others do."""
    pool = await start_pool(queue_max_requests=1, queue_ttl_s=0.01)
    await pool.ask()
    await endpoint.call()
    assert (await pool.gateway.ask()).status == 429
    waited = f"{NAME}request_queue_duration_seconds_count"
    assert pool.gateway.metric(waited, model="m") == 1
    pool.gateway.recorder.waits.keep({"default/pool"}, {kinds.UNKNOWN})
    assert pool.gateway.metric(waited) == 0
    assert (await pool.gateway.ask()).status == 429
    assert pool.gateway.metric(waited, model="m") == 1, "what comes back begins anew"


async def test_flows_with_all_else_have_only_so_many_series(start_pool, endpoint, monkeypatch):
    """A few flows, models and priorities are many together, and clients name all of them."""
    monkeypatch.setattr(metrics, "MAX_TOGETHER", 2)
    pool = await start_pool(queue_max_requests=1, queue_ttl_s=0.01)
    await pool.ask()
    await endpoint.call()
    for flow, priority in (("a", "0"), ("b", "0"), ("b", "1"), ("a", "1"), ("a", "0")):
        asked = {"x_headgate_fairness_id": flow, "x_llm_d_inference_objective": priority}
        assert (await pool.gateway.ask(**asked)).status == 429
    waited = f"{NAME}request_queue_duration_seconds_count"
    assert [pool.gateway.metric(waited, flow=flow) for flow in ("a", "b", "other")] == [2, 1, 2]
    pool.gateway.recorder.waits.keep({"default/pool"}, {"m"})
    assert len(pool.gateway.recorder.waits._together) == 2
    pool.gateway.recorder.waits.keep((), ())
    assert not pool.gateway.recorder.waits._together


async def test_all_ends_are_counted_however_many_kinds_there_are(start_pool, endpoint, monkeypatch):
    """Only the series of so many are at hand; the others are looked up."""
    monkeypatch.setattr(metrics, "MAX_BOUND", 2)
    pool = await start_pool(queue_max_requests=1, queue_ttl_s=0.01)
    await pool.ask()
    await endpoint.call()
    for flow in ("a", "b", "c", "a"):
        assert (await pool.gateway.ask(x_headgate_fairness_id=flow)).status == 429
    waited = f"{NAME}request_queue_duration_seconds_count"
    assert [pool.gateway.metric(waited, flow=flow) for flow in "abc"] == [2, 1, 1]
    assert len(pool.gateway.recorder.waits._ends) <= 2
