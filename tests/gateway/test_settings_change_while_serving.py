"""New settings apply to open connections, and disturb no request in flight."""

import asyncio


def change(gateway, **settings) -> None:
    gateway.shell.change(gateway.shell.settings.replace(**settings))


async def test_an_open_connection_goes_on_by_the_new_limits(gateway, endpoint):
    """The running request ends as it began; the next one is judged anew."""
    client = await gateway.connect()
    client.post({"model": "m", "prompt": "x" * 500})
    call = await endpoint.call()
    change(gateway, clients_max_body_bytes=100)
    call.answer(b"undisturbed")
    assert (await client.response()).body == b"undisturbed"
    client.post({"model": "m", "prompt": "x" * 500})
    assert (await client.response()).status == 413


async def test_who_is_in_stays_when_fewer_clients_are_wanted(gateway, eventually):
    """Only those who come later are turned away, even while all others are idle."""
    first, second = await gateway.connect(), await gateway.connect()
    await eventually(lambda: len(gateway.shell.clients.all) == 2)
    change(gateway, clients_max_connections=1)
    third = await gateway.connect()
    assert (await third.response()).json["error"]["code"] == "too_many_clients"
    change(gateway, clients_max_connections=3)
    fourth = await gateway.connect()
    await eventually(lambda: len(gateway.shell.clients.all) == 3)
    for client in (first, second, fourth):
        client.close()
    await eventually(lambda: not gateway.shell.clients.all)
    assert gateway.shell.clients._count.statistics() == {"clients": 0, "addresses": 0}


async def test_failures_are_judged_by_the_new_policy(start_gateway, start_endpoint):
    """Also those of endpoints that are known already."""
    gateway = await start_gateway(
        await start_endpoint(behave=lambda call: call.answer(status="503 Unavailable")),
        await start_endpoint(b"fine"),
        settings={"endpoints_ejection_failures": 0},
    )
    await gateway.ask()
    change(gateway, endpoints_ejection_failures=1)
    for load in gateway.shell.plane.ledger.loads():
        assert load.policy.failures == 1


async def test_a_gateway_that_leaves_ends_connections_with_their_next_answer(gateway, endpoint, eventually):
    """The answer says so, and nothing is closed before it: no request crosses with a close."""
    client = await gateway.connect()
    client.post()
    (await endpoint.call()).answer(b"before")
    first = await client.response()
    assert first.header("connection") is None
    retiring = asyncio.create_task(gateway.shell.retire(60))
    await asyncio.sleep(0)
    client.post()
    (await endpoint.call()).answer(b"after")
    last = await client.response()
    assert (last.body, last.header("connection")) == (b"after", "close")
    assert await client.is_closed()
    assert await retiring == 0


async def test_an_answer_that_promised_more_is_followed_by_more(gateway, endpoint):
    """Whose answer had begun when the gateway was told to leave may ask once more."""
    client = await gateway.connect()
    client.post()
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab")
    head = await client.head()
    assert head.header("connection") is None
    gateway.shell.leave()
    call.write(b"cd")
    assert (await client.read_body(head)).body == b"abcd"
    client.post()
    (await endpoint.call()).answer(b"once more")
    assert (await client.response()).header("connection") == "close"
    assert await client.is_closed()
