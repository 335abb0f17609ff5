"""Fallbacks: another model or pool takes a request over whose own cannot serve it."""

import asyncio
import json

import pytest

from headgate import api, routing
from headgate.api.fallbacks import USUAL
from headgate.requests.queueing.pending_report import PendingReport

SLO, LIMIT = "slo", "limit"


def _ref(name):
    return api.ObjectRef("ModelServer", "default", name)


def _model(name):
    return routing.Next(name)


def _pool(name):
    return routing.Next("", _ref(name))


class Fleet:
    """A gateway with one route and one pool for each model."""

    def __init__(self, gateway):
        self._gateway = gateway

    def serve(self, models, fallback=None, limits=None, served=None, **pool):
        """`models` are the endpoints of each; the first one has the fallbacks."""
        routes, pools = {}, {}
        for place, (name, endpoints) in enumerate(models.items()):
            key = _ref(name)
            made = tuple(
                routing.Endpoint(f"default/pod-{name}-{number}", "127.0.0.1", endpoint.port)
                for number, endpoint in enumerate(endpoints)
            )
            pools[key] = routing.Pool(
                key=key, endpoints=made, model=(served or {}).get(name), **(pool if place == 0 else {})
            )
            routes[name] = (
                routing.Route(
                    key=api.ObjectRef("ModelRoute", "default", name),
                    name=f"default/{name}",
                    model=name,
                    adapters=(),
                    rules=(routing.Rule("rule", None, (routing.Target(key, 100),)),),
                    limits=(limits or {}).get(name),
                    fallback=fallback if place == 0 else None,
                    created="2026-01-01T00:00:00Z",
                ),
            )
        self._gateway.shell.use(routing.Snapshot(models=routes, pools=pools))
        self._gateway.shell.plane.is_ready = True


@pytest.fixture
async def start_fleet(start_gateway):
    async def start(models, *next, reasons=USUAL, settings=None, **kwargs):
        gateway = await start_gateway(settings=settings)
        options = {
            name: kwargs.pop(name) for name in ("after_s", "first_token_s", "statuses") if name in kwargs
        }
        fallback = routing.Fallback(next=next, reasons=frozenset(reasons), **options)
        Fleet(gateway).serve(models, fallback, **kwargs)
        return gateway

    return start


def answers(call):
    """As an engine does: with the name that it was asked for."""
    body = json.dumps({"model": call.json["model"], "choices": []}).encode()
    call.answer(body, **{"content-type": "application/json"})


def _big(**more):
    return {"model": "big", "messages": [], **more}


@pytest.mark.parametrize("queue", [True, False])
async def test_a_model_without_endpoints(start_fleet, start_endpoint, queue):
    """The next model serves at once, and the answer tells which one that is."""
    small = await start_endpoint(behave=answers)
    gateway = await start_fleet(
        {"big": [], "small": [small]},
        _model("small"),
        settings={"queue_enabled": queue, "queue_no_endpoint_wait_s": 60.0},
    )
    async with asyncio.timeout(5):
        response = await gateway.ask(_big())
    assert (response.status, response.json["model"]) == (200, "small")
    assert response.header("x-headgate-model") == "small"
    assert response.header("x-headgate-fallback") == "big;no-endpoint"
    assert small.calls[0].json == _big(model="small")
    labels = {"pool": "default/big", "reason": "no-endpoint", "to": "default/small"}
    assert gateway.metric("headgate_gateway_fallbacks_total", **labels) == 1
    assert gateway.metric("headgate_gateway_requests_total", model="small") == 1
    assert gateway.metric("headgate_gateway_requests_total") == 1
    (line,) = gateway.log_lines()
    assert "model=small" in line
    assert "fallbacks=big:no-endpoint" in line


async def test_a_request_that_is_served_says_nothing(start_fleet, start_endpoint):
    """Fallbacks that are not needed leave no trace."""
    big, small = await start_endpoint(behave=answers), await start_endpoint(behave=answers)
    gateway = await start_fleet({"big": [big], "small": [small]}, _model("small"))
    response = await gateway.ask(_big())
    assert response.json["model"] == "big"
    assert response.header("x-headgate-model") is None
    assert not small.calls


@pytest.mark.parametrize("way", ["refuses", "resets", "babbles", 500, 502, 503, 429])
async def test_errors_of_all_endpoints(start_fleet, start_endpoint, way):
    """The pool's own retries come first."""

    def fail(call):
        if way == "resets":
            call.reset()
        elif way == "babbles":
            call.write(b"HTTP/1.1 nonsense\r\n\r\n")
        else:
            call.answer(b"theirs", f"{way} Status")

    bigs = [await start_endpoint(behave=fail) for _ in range(2)]
    if way == "refuses":
        for each in bigs:
            await each.stop()
    gateway = await start_fleet(
        {"big": bigs, "small": [await start_endpoint(behave=answers)]}, _model("small")
    )
    response = await gateway.ask(_big())
    assert (response.status, response.json["model"]) == (200, "small")
    assert response.header("x-headgate-fallback") == "big;error"
    if way != "refuses":  # what is not HTTP is not tried again
        assert sum(len(each.calls) for each in bigs) == (1 if way == "babbles" else 2)
        assert all(len(each.calls) <= 1 for each in bigs)
    await gateway.idle()


@pytest.mark.parametrize("status", [400, 401, 404, 422])
async def test_errors_that_are_no_reason_pass_through(start_fleet, start_endpoint, status):
    """The client's own mistakes are told to the client."""
    big = await start_endpoint(behave=lambda call: call.answer(b"theirs", f"{status} Status"))
    small = await start_endpoint(behave=answers)
    gateway = await start_fleet({"big": [big], "small": [small]}, _model("small"))
    assert (await gateway.ask(_big())).status == status
    assert not small.calls


async def test_a_status_that_is_named(start_fleet, start_endpoint):
    big = await start_endpoint(behave=lambda call: call.answer(b"theirs", "404 Status"))
    gateway = await start_fleet(
        {"big": [big], "small": [await start_endpoint(behave=answers)]},
        _model("small"),
        reasons=(),
        statuses=frozenset({404}),
    )
    assert (await gateway.ask(_big())).json["model"] == "small"


async def test_reasons_that_are_not_chosen(start_fleet, start_endpoint):
    """Without the reason, the request is refused as ever."""
    small = await start_endpoint(behave=answers)
    gateway = await start_fleet({"big": [], "small": [small]}, _model("small"), reasons=("error",))
    response = await gateway.ask(_big())
    assert (response.status, response.json["error"]["code"]) == (503, "no_ready_endpoint")
    assert not small.calls


async def test_another_pool_for_the_same_model(start_fleet, start_endpoint):
    """The client's name stays, whatever the pool calls the model."""
    spare = await start_endpoint(behave=answers)
    gateway = await start_fleet({"big": [], "spare": [spare]}, _pool("spare"), served={"spare": "org/big"})
    response = await gateway.ask(_big())
    assert response.json["model"] == "big"
    assert response.header("x-headgate-model") == "big"
    assert spare.calls[0].json["model"] == "org/big"


async def test_one_after_the_other(start_fleet, start_endpoint):
    """Models that do not exist, and the model itself, are passed over; then the last one serves."""
    broken = await start_endpoint(behave=lambda call: call.reset())
    gateway = await start_fleet(
        {"big": [], "mid": [broken], "small": [await start_endpoint(behave=answers)]},
        *map(_model, ("nowhere", "big", "mid", "small")),
    )
    response = await gateway.ask(_big())
    assert response.header("x-headgate-fallback") == "big;no-endpoint, mid;error"
    assert response.json["model"] == "small"


async def test_nobody_is_left(start_fleet, start_endpoint):
    """The last refusal is the answer, and it says what was tried."""
    gateway = await start_fleet({"big": [], "small": []}, _model("small"))
    response = await gateway.ask(_big())
    assert (response.status, response.json["error"]["code"]) == (503, "no_ready_endpoint")
    assert response.json["error"]["message"].endswith("this was for 'small', after 'big' (no-endpoint)")
    assert response.header("x-headgate-fallback") == "big;no-endpoint"


async def test_streams_have_the_name_of_who_serves(start_fleet, start_endpoint):
    """Usage that the client did not ask for stays out of the stream."""

    def stream(call):
        assert call.json["stream_options"] == {"include_usage": True}
        name = call.json["model"]
        events = [{"model": name, "choices": [{}]}, {"model": name, "choices": [], "usage": {}}]
        data = b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in events)
        call.answer(data + b"data: [DONE]\n\n", **{"content-type": "text/event-stream"})

    small = await start_endpoint(behave=stream)
    gateway = await start_fleet(
        {"big": [await start_endpoint(behave=lambda call: call.reset())], "small": [small]},
        _model("small"),
        served={"big": "org/big", "small": "org/small"},
    )
    response = await gateway.ask(_big(stream=True))
    assert response.body.count(b"data:") == 2
    assert b'"model": "small"' in response.body or b'"model":"small"' in response.body
    assert b"org/" not in response.body


async def test_large_bodies(start_fleet, start_endpoint):
    """A body that is never copied is renamed as well."""
    small = await start_endpoint(behave=answers)
    gateway = await start_fleet(
        {"big": [await start_endpoint(behave=lambda call: call.reset())], "small": [small]},
        _model("small"),
        served={"big": "org/big"},
    )
    text = "x" * 400_000
    response = await gateway.ask(_big(prompt=text))
    assert response.json["model"] == "small"
    assert small.calls[0].json == _big(model="small", prompt=text)


# -- waiting, lateness, limits, tenants


async def test_a_saturated_pool(start_fleet, start_endpoint, eventually):
    """A request waits for its own pool for a while, and then goes on."""
    big, small = await start_endpoint(), await start_endpoint(behave=answers)
    gateway = await start_fleet(
        {"big": [big], "small": [small]},
        _model("small"),
        after_s=0.2,
        settings={"queue_detector": "concurrency-detector", "queue_max_in_flight": 1},
    )
    first = await gateway.connect()
    first.post(_big())
    call = await big.call()
    began = asyncio.get_running_loop().time()
    response = await gateway.ask(_big())
    assert asyncio.get_running_loop().time() - began >= 0.19
    assert response.header("x-headgate-fallback") == "big;saturated"
    answers(call)
    assert (await first.response()).json["model"] == "big"


async def test_a_first_token_that_comes_too_late(start_fleet, start_endpoint):
    """What is predicted for the endpoint that is picked counts."""
    big, small = await start_endpoint(behave=answers), await start_endpoint(behave=answers)
    gateway = await start_fleet(
        {"big": [big], "small": [small]}, _model("small"), reasons=(SLO,), first_token_s=0.001
    )
    response = await gateway.ask(_big(prompt="x" * 200_000))
    assert response.header("x-headgate-fallback") == "big;slo"
    assert not big.calls


async def test_a_first_token_in_time(start_fleet, start_endpoint):
    big, small = await start_endpoint(behave=answers), await start_endpoint(behave=answers)
    gateway = await start_fleet(
        {"big": [big], "small": [small]}, _model("small"), reasons=(SLO,), first_token_s=600.0
    )
    assert (await gateway.ask(_big())).json["model"] == "big"


def _limit(tokens):
    return routing.TokenLimits(input=tokens, unit="minute", unit_s=60)


def _left(gateway, name):
    limit = gateway.shell.plane.routes.limits.by_route[api.ObjectRef("ModelRoute", "default", name)]
    return limit.input.budget.available(gateway.shell.now())


async def test_the_model_that_served_is_charged(start_fleet, start_endpoint):
    """What was reserved of the first limit is returned, and the other limit counts."""

    def serve(call):
        usage = {"prompt_tokens": 7, "completion_tokens": 3}
        body = json.dumps({"model": "small", "choices": [], "usage": usage}).encode()
        call.answer(body, **{"content-type": "application/json"})

    gateway = await start_fleet(
        {
            "big": [await start_endpoint(behave=lambda call: call.reset())],
            "small": [await start_endpoint(behave=serve)],
        },
        _model("small"),
        limits={"big": _limit(1000), "small": _limit(1000)},
    )
    response = await gateway.ask(_big())
    assert response.header("x-ratelimit-limit-tokens") == "1000"
    await gateway.idle()
    assert _left(gateway, "big") == 1000
    assert _left(gateway, "small") == pytest.approx(993, abs=1)


@pytest.mark.parametrize("is_reason", [True, False])
async def test_a_limit_that_is_used_up(start_fleet, start_endpoint, is_reason):
    """Only where that is a reason, another model gets the requests beyond the limit."""
    big, small = await start_endpoint(behave=answers), await start_endpoint(behave=answers)
    gateway = await start_fleet(
        {"big": [big], "small": [small]},
        _model("small"),
        reasons={*USUAL, *((LIMIT,) if is_reason else ())},
        limits={"big": _limit(10)},
    )
    response = await gateway.ask(_big(messages=[{"role": "user", "content": "word " * 100}]))
    assert response.status == (200 if is_reason else 429)
    assert response.header("x-headgate-fallback") == ("big;limit" if is_reason else None)


async def test_the_limit_of_the_next_model(start_fleet, start_endpoint):
    """A model that takes over does not exceed its own limit."""
    small = await start_endpoint(behave=answers)
    gateway = await start_fleet({"big": [], "small": [small]}, _model("small"), limits={"small": _limit(10)})
    response = await gateway.ask(_big(messages=[{"role": "user", "content": "word " * 100}]))
    assert (response.status, response.json["error"]["code"]) == (429, "rate_limit_exceeded")
    assert "default/small" in response.json["error"]["message"]
    assert not small.calls


async def test_anthropics_messages(start_fleet, start_endpoint):
    """Errors after a fallback have the format of the API."""
    gateway = await start_fleet({"big": [], "small": []}, _model("small"))
    response = await gateway.ask(_big(max_tokens=5), "/v1/messages")
    assert (response.status, response.json["type"]) == (503, "error")
    assert "after 'big' (no-endpoint)" in response.json["error"]["message"]


async def test_a_client_that_leaves_meanwhile(start_fleet, start_endpoint):
    """Nothing is left over in the pool that was left, nor in the other."""
    small = await start_endpoint()
    gateway = await start_fleet(
        {"big": [], "small": [small]}, _model("small"), limits={"small": _limit(1000)}
    )
    client = await gateway.connect()
    client.post(_big())
    await small.call()
    client.close()
    await gateway.idle()
    assert gateway.metric("headgate_gateway_requests_total") == 1


async def test_the_decision_is_told(start_fleet, start_endpoint):
    """Who may ask for the decision sees what was left."""
    small = await start_endpoint(behave=answers)
    trusted = {"clients_trusted_networks": ("127.0.0.0/8",)}
    gateway = await start_fleet({"big": [], "small": [small]}, _model("small"), settings=trusted)
    response = await gateway.ask(_big(), x_headgate_explain="1")
    decision = response.header("x-headgate-decision")
    assert "left=big:no-endpoint" in decision
    assert "target=default/small" in decision


# -- what stays in the pool that was left, and what comes with the request


def _long():
    return _big(messages=[{"role": "user", "content": "word " * 1000}])


BUSY = {"queue_detector": "concurrency-detector", "queue_max_in_flight": 1}


async def test_bodies_for_the_next_model_are_let_go(start_fleet, start_endpoint, eventually):
    """A request that waited has one at hand, for as long as it may need it: a long stream holds none."""
    big, small = await start_endpoint(), await start_endpoint()
    gateway = await start_fleet({"big": [big], "small": [small]}, _model("small"), settings=BUSY)
    first, second = await gateway.connect(), await gateway.connect()
    first.post(_big())
    call = await big.call()
    second.post(_big(prompt="x" * 100_000))
    queue = gateway.shell.plane.pools[_ref("big")].queue
    await eventually(lambda: queue.held)
    (wait,) = queue.waits()
    life = wait.place.owner.life
    assert life.fallen.upcoming is not None
    answers(call)
    call = await big.call()
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no")
    await second.head()
    assert life.fallen.upcoming is None
    assert not life.request.body
    call.write(b"k")
    await gateway.idle()


async def test_the_pool_that_serves_counts_the_work(start_fleet, start_endpoint):
    """Its autoscaling goes by that, wherever the requests come from."""
    broken = await start_endpoint(behave=lambda call: call.reset())
    gateway = await start_fleet(
        {"big": [broken], "small": [await start_endpoint(behave=answers)]}, _model("small")
    )
    await gateway.ask(_long())
    assert gateway.shell.plane.pools[_ref("small")].traffic.prompt_tokens > 500


async def test_the_queue_of_another_pool_is_not_corrected(start_fleet, start_endpoint, eventually):
    """A request that waited in the pool that it left was never charged in the queue of the one that serves:
    other workers are told of its use, and of no difference to an estimate."""
    big, small = await start_endpoint(), await start_endpoint(behave=answers)
    gateway = await start_fleet({"big": [big], "small": [small]}, _model("small"), after_s=0.1, settings=BUSY)
    pool = gateway.shell.plane.pools[_ref("small")]
    pool.queue.tally = PendingReport()
    first = await gateway.connect()
    first.post(_big())
    call = await big.call()
    assert (await gateway.ask(_long())).header("x-headgate-fallback") == "big;saturated"
    await eventually(lambda: not pool.traffic.in_flight)
    (charge,) = pool.queue.tally.charges.take()
    assert (charge.sent, charge.requests) == (0, 1)
    assert pool.traffic.prompt_tokens > 500
    answers(call)
    await gateway.idle()


async def test_each_queue_has_its_own_time(start_fleet, start_endpoint, eventually):
    """What a request waited before does not count against the time for a pool that starts."""
    big, small = await start_endpoint(), await start_endpoint()
    settings = BUSY | {"queue_start_wait_s": 0.1}
    gateway = await start_fleet(
        {"big": [big], "small": [small]}, _model("small"), after_s=0.2, settings=settings
    )
    calls = []
    for name, endpoint in (("big", big), ("small", small)):
        (await gateway.connect()).post({"model": name, "messages": []})
        calls.append(await endpoint.call())
    third = await gateway.connect()
    third.post(_big())
    await eventually(lambda: gateway.shell.plane.pools[_ref("small")].queue.held)
    answers(calls[1])
    answers(await small.call())
    assert (await third.response()).json["model"] == "small"
    answers(calls[0])
    await gateway.idle()


async def test_clients_that_give_up_go_nowhere_else(start_fleet, start_endpoint):
    """The next model would work for nobody."""
    big, small = await start_endpoint(), await start_endpoint(behave=answers)
    gateway = await start_fleet({"big": [big], "small": [small]}, _model("small"), settings=BUSY)
    first = await gateway.connect()
    first.post(_big())
    call = await big.call()
    response = await gateway.ask(_big(), x_request_timeout_ms="100")
    assert (response.status, response.json["error"]["code"]) == (429, "queue_timeout")
    assert not small.calls
    answers(call)
    await gateway.idle()
