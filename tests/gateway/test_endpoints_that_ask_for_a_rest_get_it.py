"""429 and 503 with Retry-After keep requests from an endpoint for that time, and are no failure."""

import logging
import time
from email.utils import formatdate

import pytest

from headgate.dataplane import retry_after


def resting(status, after):
    return lambda call: call.answer(b"no", f"{status} Status", **{"retry-after": str(after)})


def serving(call):
    call.answer(b"yes")


def loads(gateway):
    return next(iter(gateway.shell.plane.pools.values())).loads


@pytest.mark.parametrize("status", [429, 503])
async def test_it_gets_no_requests_for_that_time(start_gateway, start_endpoint, status, caplog):
    """The request goes elsewhere, and so do all others until the time is up; it has not failed."""
    busy = await start_endpoint(behave=resting(status, 20))
    gateway = await start_gateway(busy, await start_endpoint(behave=serving))
    with caplog.at_level(logging.INFO):
        for _ in range(19):
            assert (await gateway.ask()).body == b"yes"
            gateway.move(1)
    assert len(busy.calls) == 1
    name = "headgate.dataplane.records.attempt_metrics"
    (line,) = [record.message for record in caplog.records if record.name == name]
    assert line.endswith("of default/pool gets no requests for 20 s, as it requested (Retry-After)")
    assert loads(gateway)[0].failures == 0
    assert gateway.metric("headgate_gateway_ejections_total", reason="retry_after") == 1
    gateway.move(2)
    busy.behave = serving
    await gateway.ask()
    assert len(busy.calls) == 2


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_the_limit_of_one_client_holds_up_nobody_else(start_gateway, start_endpoint, eventually, count):
    """Whatever time it names: with the queue, all requests of others are still sent at once."""

    def behave(call):
        if call.header("authorization"):
            resting(429, 300)(call)
        else:
            held.append(call)

    held = []
    endpoints = [await start_endpoint(behave=behave) for _ in range(count)]
    gateway = await start_gateway(*endpoints, settings={"queue_enabled": True})
    assert (await gateway.ask(None, authorization="Bearer poor")).status == 429
    first = await gateway.connect()
    first.post()
    await eventually(lambda: held)
    held.pop().answer(b"yes")
    await first.response()
    clients = [await gateway.connect() for _ in range(12)]
    for client in clients:
        client.post()
    await eventually(lambda: len(held) == 12)
    for call in held:
        call.answer(b"yes")
    for client in clients:
        assert (await client.response()).body == b"yes"


async def test_a_rest_does_not_grow(start_gateway, start_endpoint):
    """However often it asks for one."""
    busy = await start_endpoint(behave=resting(503, 1))
    gateway = await start_gateway(busy, await start_endpoint(behave=serving))
    for count in range(1, 8):
        await gateway.ask()
        assert len(busy.calls) == count
        gateway.move(1.1)


async def test_a_rest_of_ages_is_told(start_gateway, start_endpoint, caplog):
    """However many digits it has. The log does not tell that the only endpoint of a pool gets its rest."""
    gateway = await start_gateway(await start_endpoint(behave=resting(429, "9" * 20)))
    with caplog.at_level(logging.INFO):
        response = await gateway.ask()
    assert (response.status, response.header("retry-after")) == (429, "1000000000")
    assert "requests a pause of 1e+09 s (Retry-After), but the pool has no other endpoint" in caplog.text


async def test_a_rest_of_no_time_excuses_nothing(start_gateway, start_endpoint):
    """An endpoint that always sends 503 and 0 has failed like one that sends 503."""
    failing = await start_endpoint(behave=resting(503, 0))
    gateway = await start_gateway(failing, await start_endpoint(behave=serving))
    for _ in range(8):
        assert (await gateway.ask()).body == b"yes"
        gateway.move(1.01)
    assert len(failing.calls) == 5


async def test_a_rest_is_bounded(start_gateway, start_endpoint):
    """By the longest ejection."""
    gateway = await start_gateway(
        await start_endpoint(behave=resting(503, "9" * 30)), await start_endpoint(behave=serving)
    )
    await gateway.ask()
    assert loads(gateway)[0].resting_until - gateway.shell.now() <= 300


async def test_all_rest(start_gateway, start_endpoint):
    """Each request is sent once, and the client hears when the first of them is back."""
    endpoints = [await start_endpoint(behave=resting(503, after)) for after in (50, 9, 30)]
    gateway = await start_gateway(*endpoints)
    assert (await gateway.ask()).header("retry-after") == "9"
    assert [len(endpoint.calls) for endpoint in endpoints] == [1, 1, 1]
    gateway.move(4.5)
    response = await gateway.ask()
    assert (response.status, response.body, response.header("retry-after")) == (503, b"no", "5")
    assert sum(len(endpoint.calls) for endpoint in endpoints) == 4


async def test_who_serves_while_all_rest_is_back(start_gateway, start_endpoint):
    """Its rest has ended, and it gets the requests."""
    endpoints = [await start_endpoint(behave=resting(503, 50)) for _ in range(2)]
    gateway = await start_gateway(*endpoints)
    await gateway.ask()
    for endpoint in endpoints:
        endpoint.behave = serving
    assert (await gateway.ask()).body == b"yes"
    assert sorted(load.resting_until > gateway.shell.now() for load in loads(gateway)) == [False, True]


async def test_a_limit_of_one_client_is_not_everybodys(start_gateway, start_endpoint):
    """Where all endpoints send it 429, none rests for others."""
    endpoints = [await start_endpoint(behave=resting(429, 50)) for _ in range(2)]
    gateway = await start_gateway(*endpoints)
    assert (await gateway.ask()).status == 429
    assert not any(load.resting_until > gateway.shell.now() for load in loads(gateway))


async def test_an_answer_to_an_earlier_request_ends_no_rest(start_gateway, start_endpoint):
    """It says nothing of what the endpoint has capacity for now."""
    busy = await start_endpoint()
    gateway = await start_gateway(busy, await start_endpoint(behave=serving))
    client = await gateway.connect()
    client.post()
    earlier = await busy.call()
    gateway.move(0.01)
    busy.behave = resting(503, 20)
    other = await gateway.connect()
    loads(gateway)[1].suspected(gateway.shell.now())
    other.post()
    assert (await other.response()).body == b"yes"
    assert loads(gateway)[0].resting_until > gateway.shell.now()
    earlier.answer(b"late")
    assert (await client.response()).body == b"late"
    assert loads(gateway)[0].resting_until > gateway.shell.now()


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(b"retry-after", b"7")], 7),
        ([(b"retry-after", b" 1 ")], 1),
        ([(b"retry-after", b"0")], None),
        ([], None),
        ([(b"retry-after", b"soon")], None),
        ([(b"retry-after", b"-3")], None),
        ([(b"retry-after", b"1.5")], None),
        ([(b"retry-after", "\u0663".encode())], None),
        (
            [
                (b"date", formatdate(1000, usegmt=True).encode()),
                (b"retry-after", formatdate(1030, usegmt=True).encode()),
            ],
            30,
        ),
        (
            [
                (b"date", formatdate(1000, usegmt=True).encode()),
                (b"retry-after", formatdate(900, usegmt=True).encode()),
            ],
            None,
        ),
    ],
)
def test_forms_of_retry_after(headers, expected):
    """Seconds, or a date; anything else says nothing."""
    assert retry_after.seconds(headers) == expected


def test_a_date_without_the_date_of_the_response():
    """Is compared with the gateway's own clock."""
    at = formatdate(time.time() + 100, usegmt=True).encode()
    assert 90 <= retry_after.seconds([(b"retry-after", at)]) <= 100
