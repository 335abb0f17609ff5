"""Whether a request would wait, and why, is told before it is sent; how it waited, with its answer."""

import math

import msgspec

from headgate.gateway import explaining

BODY = b'{"model": "m", "prompt": "hello"}'


def explained(pool, body=BODY):
    view = explaining.View.of_proxy(pool.gateway.proxy)
    return explaining.explain(view, "/v1/completions", [], body).decided


async def test_a_request_that_would_go_at_once(pool):
    """Nothing is said of waiting."""
    assert explained(pool).waits == ""


async def test_a_pool_without_room(pool, endpoint):
    """Its saturation says so, and once somebody waits, how many are before."""
    await pool.ask()
    await endpoint.call()
    assert explained(pool).waits == "the pool has no room: its saturation is 1.00"
    await pool.wait()
    assert explained(pool).waits == "1 wait before it"
    assert pool.queue.held == 1


async def test_a_pool_without_endpoints(start_pool):
    """How long one is waited for."""
    pool = await start_pool(no_endpoint_wait_s=45.0)
    pool.gateway.serve([])
    assert explained(pool).waits == "no endpoint is ready: it waits up to 45 s for one"


async def test_a_pool_that_will_never_have_room(pool, monkeypatch):
    """Its saturation is a number that JSON can have."""
    monkeypatch.setattr(type(pool.queue._capacity), "saturation", lambda self, now: math.inf)
    (shown,) = (await pool.page("/debug/flow"))["default/pool"]
    assert shown["queue"]["saturation"] == 1000.0


async def test_without_flow_control_nothing_waits(start_pool, endpoint):
    """Whatever the pool has room for."""
    pool = await start_pool(flow_control=False)
    await pool.ask()
    await endpoint.call()
    assert explained(pool).waits == ""


async def test_the_decision_tells_of_the_wait(start_pool, endpoint):
    """To a trusted client that asks for it."""
    pool = await start_pool(trusted_clients=("127.0.0.0/8",))
    await pool.ask()
    first = await endpoint.call()
    client = await pool.wait(x_headgate_explain="1", x_headgate_fairness_id="team-a", x_priority="2")
    first.answer(b"{}")
    await pool.served()
    told = dict(
        pair.split("=", 1) for pair in (await client.response()).header("x-headgate-decision").split("; ")
    )
    assert (told["flow"], told["priority"], told["queued"][-2:]) == ("team-a", "2", "ms")


async def test_a_refusal_tells_why_it_was_dropped(start_pool, endpoint):
    """In the same line."""
    pool = await start_pool(trusted_clients=("127.0.0.0/8",), queue_ttl_s=0.05)
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
        await pool.wait(x_priority=priority)
    size = pool.gateway.metric(f"{name}queue_bytes", priority="1")
    assert size > 0
    assert pool.gateway.metric(f"{name}capacity_utilization_requests", priority="1") == 0.25
    assert pool.gateway.metric(f"{name}capacity_utilization_bytes", priority="1") == size / 5_000
    assert pool.gateway.metric(f"{name}global_capacity_utilization_requests") == 0.2
    assert pool.gateway.metric(f"{name}global_capacity_utilization_bytes") == 2 * size / 10_000
    settings = msgspec.structs.replace(
        pool.gateway.proxy.settings, queue_max_requests=0, queue_band_max_bytes=0
    )
    pool.gateway.proxy.change(settings)
    told = pool.gateway.registry.render().decode()
    assert f"\n{name}global_capacity_utilization_requests{{" not in told
    assert f"\n{name}capacity_utilization_bytes{{" not in told
