"""A status that may be the endpoint's fault is retried elsewhere; the second response decides."""

import asyncio

import pytest

from headgate.fleet import suspects

STATUSES = [401, 403, 404, 429, 500, 501, 502, 503]
PATH = "/v1/chat/completions"


def rejecting(status):
    return lambda call: call.answer(b"no", f"{status} Status")


def serving(call):
    call.answer(b"yes")


def later(gateway, seconds):
    """Moves the gateway's clock."""
    gateway.move(seconds)


def load_of(gateway, place):
    return next(iter(gateway.shell.plane.pools.values())).loads[place]


@pytest.mark.parametrize("status", STATUSES)
async def test_an_endpoint_that_alone_rejects_is_ejected(start_gateway, start_endpoint, status):
    """Clients get the response of the other endpoint, and after five failures the first one is out."""
    failing = await start_endpoint(behave=rejecting(status))
    gateway = await start_gateway(failing, await start_endpoint(behave=serving))
    for _ in range(8):
        assert (await gateway.ask()).body == b"yes"
        later(gateway, 1.01)
    assert len(failing.calls) == 5
    assert gateway.metric("headgate_gateway_ejections_total", reason=f"status_{status}") == 1


@pytest.mark.parametrize("status", STATUSES)
async def test_nobody_is_blamed_for_what_all_endpoints_say(start_gateway, start_endpoint, status):
    """The client gets the response of the last one, whole; no endpoint has failed, and none is avoided."""

    def reject(call):
        call.answer(b"no", f"{status} Status", **{"x-of": "engine"})

    endpoints = [await start_endpoint(behave=reject) for _ in range(2)]
    gateway = await start_gateway(*endpoints)
    response = await gateway.ask()
    assert (response.status, response.body, response.header("x-of")) == (status, b"no", "engine")
    assert [len(endpoint.calls) for endpoint in endpoints] == [1, 1]
    for place in range(2):
        load = load_of(gateway, place)
        assert (load.failures, load.avoided(gateway.shell.now())) == (0, False)


async def test_a_third_endpoint_is_asked_only_for_capacity(start_gateway, start_endpoint):
    """Two that say the same are enough, unless they are overloaded."""
    endpoints = [await start_endpoint() for _ in range(3)]
    gateway = await start_gateway(*endpoints)
    for status, asked in ((401, 2), (500, 2), (429, 3), (503, 3)):
        for endpoint in endpoints:
            endpoint.behave = rejecting(status)
            endpoint.calls.clear()
        assert (await gateway.ask()).status == status
        assert sum(len(endpoint.calls) for endpoint in endpoints) == asked


async def test_a_mistake_of_the_client_that_only_the_second_finds(start_gateway, start_endpoint):
    """An endpoint that judges the request itself works, and the one that did not has failed."""
    gateway = await start_gateway(
        await start_endpoint(behave=rejecting(401)), await start_endpoint(behave=rejecting(400))
    )
    assert (await gateway.ask()).status == 400
    assert [load_of(gateway, place).failures for place in range(2)] == [1, 0]


async def test_a_wrong_key_is_retried_only_now_and_then(start_gateway, start_endpoint):
    """Once two endpoints agree about a key, further requests with it cost one attempt for ten seconds;
    requests with another key are retried nevertheless."""
    endpoints = [await start_endpoint(behave=rejecting(401)) for _ in range(2)]
    gateway = await start_gateway(*endpoints)

    async def attempts(key):
        before = sum(len(endpoint.calls) for endpoint in endpoints)
        assert (await gateway.ask(None, PATH, authorization=f"Bearer {key}")).status == 401
        return sum(len(endpoint.calls) for endpoint in endpoints) - before

    assert [await attempts("wrong") for _ in range(3)] == [2, 1, 1]
    assert await attempts("other") == 2
    later(gateway, 11)
    assert await attempts("wrong") == 2
    assert [load_of(gateway, place).failures for place in range(2)] == [0, 0]


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_two_endpoints_that_agree_may_both_be_at_fault(start_gateway, start_endpoint, status):
    """As soon as a third one serves the like, requests are tried elsewhere again, and both go."""
    wrong = [await start_endpoint(behave=rejecting(status)) for _ in range(2)]
    right = [await start_endpoint(behave=serving) for _ in range(2)]
    gateway = await start_gateway(*wrong, *right, settings={"scheduling_policy": "round-robin"})
    statuses = []
    for _ in range(40):
        statuses.append((await gateway.ask()).status)
        later(gateway, 0.3)
    assert statuses.count(status) <= 8
    assert set(statuses[-10:]) == {200}
    assert all(load_of(gateway, place).ejection.count for place in range(2))


async def test_mistakes_of_clients_leave_retries_for_failures(start_gateway, start_endpoint):
    """However many keys are tried, half of the retry budget stays for endpoints that fail."""
    endpoints = [await start_endpoint(behave=rejecting(401)) for _ in range(2)]
    gateway = await start_gateway(*endpoints)
    now = gateway.shell.now()
    gateway.shell.services.now = lambda: now
    client = await gateway.connect()
    for key in range(120):
        client.post(None, PATH, authorization=f"Bearer {key}")
        assert (await client.response()).status == 401
    assert gateway.metric("headgate_gateway_retries_total", granted="no") > 0
    endpoints[0].behave = lambda call: call.reset()
    endpoints[1].behave = serving
    for _ in range(4):
        assert (await gateway.ask()).body == b"yes"


async def test_clients_with_wrong_keys_eject_nobody(start_gateway, start_endpoint):
    """Others are served meanwhile by all endpoints."""

    def judge(call):
        call.answer(b"yes") if call.header("authorization") == "Bearer right" else rejecting(401)(call)

    gateway = await start_gateway(*[await start_endpoint(behave=judge) for _ in range(2)])
    for key in range(30):
        assert (await gateway.ask(None, PATH, authorization=f"Bearer {key}")).status == 401
        assert (await gateway.ask(None, PATH, authorization="Bearer right")).status == 200
    assert [load_of(gateway, place).failures for place in range(2)] == [0, 0]


async def test_a_long_answer_elsewhere_is_not_waited_for(start_gateway, start_endpoint, eventually):
    """An endpoint that works on the request for two seconds has accepted it."""
    failing, slow = await start_endpoint(behave=rejecting(500)), await start_endpoint()
    gateway = await start_gateway(failing, slow)
    asking = asyncio.create_task(gateway.ask())
    call = await slow.call()
    assert load_of(gateway, 0).failures == 0
    assert load_of(gateway, 0).avoided(gateway.shell.now())
    later(gateway, suspects.ACCEPTED_AFTER_S + 0.1)
    await eventually(lambda: load_of(gateway, 0).failures == 1)
    call.answer(b"yes")
    assert (await asking).body == b"yes"
    assert load_of(gateway, 0).failures == 1


@pytest.mark.parametrize("status", [401, 404, 429])
async def test_a_rejection_does_not_bring_an_endpoint_back(start_gateway, start_endpoint, status):
    """Only an answer on the merits ends a row of failures."""
    endpoint = await start_endpoint(behave=lambda call: call.reset())
    gateway = await start_gateway(endpoint)
    await gateway.ask()
    endpoint.behave = rejecting(status)
    await gateway.ask()
    assert load_of(gateway, 0).failures_in_row == 1


async def test_a_client_that_leaves_before_it_is_known(start_gateway, start_endpoint, eventually):
    """Nobody is blamed for a rejection then, and nobody is avoided for it."""
    failing, slow = await start_endpoint(behave=rejecting(401)), await start_endpoint()
    gateway = await start_gateway(failing, slow)
    client = await gateway.connect()
    client.post()
    await slow.call()
    client.close()
    await eventually(lambda: gateway.settled)
    load = load_of(gateway, 0)
    assert (load.failures, load.avoided(gateway.shell.now())) == (0, False)


async def test_an_endpoint_that_fails_every_other_request_is_ejected(start_gateway, start_endpoint, caplog):
    """Never five in a row; the log and the metrics say why it is out."""
    flaky = await start_endpoint()
    flaky.behave = lambda call: rejecting(500)(call) if len(flaky.calls) % 2 else serving(call)
    gateway = await start_gateway(flaky, await start_endpoint(behave=serving))
    for _ in range(40):
        assert (await gateway.ask()).body == b"yes"
        later(gateway, 1.01)
    assert len(flaky.calls) < 30
    assert gateway.metric("headgate_gateway_ejections_total", reason="status_500") >= 1
    assert "of its requests, far more than the others, the last: status_500 (" in caplog.text


@pytest.mark.parametrize(("percent", "asked"), [(0, 4), (50, 2), (100, 1)])
async def test_how_much_of_a_pool_may_be_ejected(start_gateway, start_endpoint, eventually, percent, asked):
    """The setting says how much, but one endpoint always stays."""
    endpoints = [await start_endpoint(behave=lambda call: call.reset()) for _ in range(3)]
    endpoints.append(await start_endpoint(behave=serving))
    settings = {
        "endpoints_ejection_failures": 1,
        "endpoints_max_ejection_percent": percent,
        "endpoints_retries": 9,
    }
    gateway = await start_gateway(*endpoints, settings=settings)
    for _ in range(2):
        assert (await gateway.ask()).body == b"yes"
    later(gateway, 2)
    for endpoint in endpoints:
        endpoint.calls.clear()
    clients = [await gateway.connect() for _ in range(12)]
    for endpoint in endpoints[:3]:
        endpoint.behave = serving
    endpoints[3].behave = None
    for client in clients:
        client.post()
    await eventually(lambda: sum(len(endpoint.calls) for endpoint in endpoints) == len(clients))
    assert sum(1 for endpoint in endpoints if endpoint.calls) == asked
    for _ in endpoints[3].calls:
        (await endpoints[3].call()).answer(b"yes")
    for client in clients:
        await client.response()
