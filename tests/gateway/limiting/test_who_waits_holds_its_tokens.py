"""A queued request holds its reserved tokens, and returns them all if it is dropped."""

import asyncio

import pytest

ROOM_FOR_ONE = {"queue_enabled": True, "queue_detector": "concurrency-detector", "queue_max_in_flight": 1}
LIMITS = {"input": 1000, "output": 1000}


@pytest.fixture
def start_full(start_gateway, endpoint, per_month, prompt):
    """Starts a gateway whose pool is full of one request of 8 and 10 tokens; and the call of that."""

    async def start(**settings):
        gateway = await start_gateway(endpoint, settings=ROOM_FOR_ONE | settings, limits=per_month(**LIMITS))
        client = await gateway.connect()
        client.post(prompt(8, max_tokens=10))
        return gateway, await endpoint.call()

    return start


@pytest.fixture
def waits(prompt, eventually):
    """Sends a request of 50 and 20 tokens that has to wait; its client."""

    async def wait(gateway, **more):
        client = await gateway.connect()
        client.post(prompt(50, max_tokens=20, **more), x_headgate_progress="true")
        (queue,) = gateway.shell.queues.all()
        await eventually(lambda: queue.held == 1)
        return client

    return wait


async def test_it_holds_them_while_it_waits(start_full, waits, left, endpoint, counted):
    """So a queue cannot let through more than the limit; it is settled by what was counted, as any other."""
    gateway, first = await start_full()
    client = await waits(gateway)
    assert left(gateway) == (942, 970)
    first.answer(counted(8, 10))
    (await endpoint.call()).answer(counted(40, 15))
    assert (await client.response()).status == 200
    assert left(gateway) == (952, 975)


async def test_it_gives_them_back_when_its_time_is_over(start_full, waits, left):
    """It was refused, and nothing was done for it."""
    gateway, _ = await start_full(queue_ttl_s=0.1)
    client = await waits(gateway)
    refused = await client.response()
    assert (refused.status, refused.json["error"]["code"]) == (429, "queue_timeout")
    assert left(gateway) == (992, 990)


async def test_it_gives_them_back_when_its_client_leaves(start_full, waits, left, eventually):
    """At once."""
    gateway, _ = await start_full()
    (await waits(gateway)).close()
    await eventually(lambda: gateway.settled == 1)
    assert left(gateway) == (992, 990)


async def test_its_client_hears_of_the_limit_with_its_progress(start_full, waits, left, endpoint):
    """The head of the stream is sent before there is an answer, and tells what is left all the same."""
    gateway, first = await start_full()
    client = await waits(gateway, stream=True)
    now = asyncio.get_running_loop().time()
    for each in list(gateway.shell.clients.all):
        each.sweep(now + 1.0)
    head = await client.head()
    assert head.status == 200
    assert head.header("x-ratelimit-limit-tokens") == "1000"
    assert head.header("x-ratelimit-remaining-tokens") == "942"
    first.answer(b"{}")
    (await endpoint.call()).answer(b'{"error": {"message": "too long"}}', "400 Bad Request")
    assert b"too long" in (await client.read_body(head)).body
    await gateway.idle()
    assert left(gateway)[0] == 992
