"""A body that is rewritten for two endpoints counts three times towards the memory limit of bodies."""

BOUNDS = {"clients_max_body_bytes": 200_000, "clients_max_bodies_bytes": 800_000}


def _body(size):
    return b'{"model":"m","messages":[{"role":"user","content":"%b"}]}' % (b"x" * size)


async def test_it_counts_until_the_response_begins(split, handed_over, eventually):
    """While it may have to be sent to another pair."""
    some = await split("nixl", settings=BOUNDS)
    body = _body(150_000)
    client = await some.gateway.connect()
    client.post(body)
    prefill = await some.prefill[0].call()
    assert some.gateway.shell.services.bodies.held == 3 * len(body)
    handed_over(prefill)
    decode = await some.decode[0].call()
    assert some.gateway.shell.services.bodies.held == 3 * len(body)
    decode.answer(b"{}")
    assert (await client.response()).status == 200
    await eventually(lambda: not some.gateway.shell.services.bodies.held)


async def test_it_is_refused_where_there_is_no_memory_for_two(split, eventually):
    """The body itself fits."""
    some = await split("nixl", settings=BOUNDS)
    first = await some.gateway.connect()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-length: 190000\r\n\r\n"
    first.send(head + _body(180_000))
    await eventually(lambda: some.gateway.shell.services.bodies.held > 180_000)
    second = await some.gateway.connect()
    second.post(_body(180_000))
    response = await second.response()
    assert (response.status, response.json["error"]["code"]) == (503, "too_many_body_bytes")
    assert response.header("retry-after") == "1"
    assert not some.prefill[0].calls
    await eventually(lambda: some.gateway.shell.services.bodies.held < 190_000)
