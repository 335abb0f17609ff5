"""An endpoint that keeps failing gets no requests for a while, and the gateway reports that."""

import asyncio
import logging

import pytest


def _later(gateway, seconds):
    """Moves the gateway's clock."""
    loop = asyncio.get_running_loop()
    gateway.shell.services.now = lambda: loop.time() + seconds


def _broken(call):
    call.reset()


def _overloaded(call):
    call.answer(b"busy", "503 Service Unavailable")


@pytest.mark.parametrize(("behave", "reason"), [(_broken, "reset"), (_overloaded, "status_503")])
async def test_failures_in_a_row(start_gateway, start_endpoint, behave, reason, caplog):
    """Five of them eject: counted, logged with the reason, and no request goes there in the meantime."""
    failing, other = await start_endpoint(behave=behave), await start_endpoint(b"alive")
    gateway = await start_gateway(failing, other)
    with caplog.at_level(logging.WARNING):
        for request in range(8):
            _later(gateway, request * 1.01)
            assert (await gateway.ask()).body == b"alive"
    assert len(failing.calls) == 5
    assert gateway.metric("headgate_gateway_ejections_total", pool="default/pool", reason=reason) == 1
    name = "headgate.dataplane.records.attempt_metrics"
    (line,) = [record.message for record in caplog.records if record.name == name]
    assert line == (
        f"default/pod-0 (127.0.0.1:{failing.port}) of default/pool is ejected for 5 s"
        f" after 5 failures in a row, the last: {reason} (5)"
    )
    failing.behave = lambda call: call.answer(b"well again")
    _later(gateway, 60)
    assert (await gateway.ask()).body == b"well again"
    assert gateway.shell.plane.ledger.loads()[0].failures_in_row == 0


async def test_the_log_names_the_failures_of_the_row_alone(start_gateway, start_endpoint, caplog):
    """What failed before the last good response had nothing to do with it."""
    failing, other = await start_endpoint(behave=_broken), await start_endpoint(b"alive")
    gateway = await start_gateway(failing, other)
    for behave, times in ((_broken, 2), (lambda call: call.answer(b"well"), 60), (_overloaded, 5)):
        failing.behave = behave
        for _ in range(times):
            await gateway.ask()
            gateway.move(1.01)
    assert "after 5 failures in a row, the last: status_503 (5)" in caplog.text


async def test_endpoint_that_cannot_be_reached(start_gateway, start_endpoint):
    """A dead machine costs a retry five times, then one after each ejection."""
    dead = await start_endpoint()
    await dead.stop()
    gateway = await start_gateway(dead, await start_endpoint(b"alive"))
    for request in range(60):
        _later(gateway, request * 1.01)
        assert (await gateway.ask()).body == b"alive"
    failed = gateway.metric("headgate_gateway_attempts_failed_total", reason="connect")
    assert 5 <= failed <= 8
    assert gateway.metric("headgate_gateway_ejections_total") == failed - 4


async def test_endpoint_that_takes_too_long(start_gateway, start_endpoint):
    """Time that is up counts as a failure."""
    hanging = await start_endpoint()
    gateway = await start_gateway(
        hanging, await start_endpoint(b"alive"), settings={"endpoints_ejection_failures": 1}, timeout_s=60
    )
    timers = gateway.timers
    asking = asyncio.create_task(gateway.ask())
    await hanging.call()
    timers.end(60)
    assert (await asking).body == b"alive"
    assert gateway.metric("headgate_gateway_ejections_total", reason="timeout") == 1


async def test_refusals_that_reach_the_client_count(start_gateway, start_endpoint):
    """Also where nothing is tried again, an endpoint that answers 503 has failed."""
    gateway = await start_gateway(
        await start_endpoint(behave=_overloaded),
        await start_endpoint(b"alive"),
        settings={"endpoints_ejection_failures": 1, "endpoints_retries": 0},
    )
    assert (await gateway.ask()).status == 503
    assert [(await gateway.ask()).status for _ in range(3)] == [200] * 3


async def test_answers_to_bad_requests_are_answers(start_gateway, start_endpoint):
    """An endpoint that refuses what a client sent is well: only 502, 503 and 504 speak against it."""
    for status in ("400 Bad Request", "500 Internal Server Error", "429 Too Many Requests"):
        gateway = await start_gateway(
            await start_endpoint(behave=lambda call, status=status: call.answer(b"", status)),
            settings={"endpoints_ejection_failures": 1},
        )
        await gateway.ask()
        assert gateway.shell.plane.ledger.loads()[0].failures == 0


async def test_answers_that_are_no_http_count(start_gateway, start_endpoint):
    """They are not tried again, but speak against the endpoint."""
    gateway = await start_gateway(
        await start_endpoint(behave=lambda call: call.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")),
        await start_endpoint(b"alive"),
        settings={"endpoints_ejection_failures": 1},
    )
    assert [(await gateway.ask()).status for _ in range(3)] == [502, 200, 200]
    assert gateway.metric("headgate_gateway_ejections_total", reason="upstream_invalid") == 1


async def test_answers_that_always_break(start_gateway, start_endpoint):
    """An endpoint whose answers begin well and never end well is out after five, one after the other."""

    def break_off(call):
        call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
        call.close()

    failing = await start_endpoint(behave=break_off)
    gateway = await start_gateway(failing, await start_endpoint(b"alive"))
    for request in range(8):
        _later(gateway, request * 1.01)
        client = await gateway.connect()
        client.post()
        await client.rest() if request < 5 else await client.response()
    assert len(failing.calls) == 5
    assert gateway.metric("headgate_gateway_ejections_total", reason="upstream_lost") == 1


async def test_pool_that_fails_as_a_whole_is_asked_nevertheless(start_gateway, start_endpoint):
    """However many have failed, nobody is told that there is no endpoint; who answers is back."""
    endpoints = [await start_endpoint(behave=_overloaded) for _ in range(3)]
    gateway = await start_gateway(*endpoints, settings={"endpoints_ejection_failures": 1})
    for _ in range(5):
        response = await gateway.ask()
        assert (response.status, response.body) == (503, b"busy")
    for endpoint in endpoints:
        endpoint.behave = lambda call: call.answer(b"well again")
    assert (await gateway.ask()).body == b"well again"


async def test_only_endpoint_is_never_ejected(start_gateway, start_endpoint, caplog):
    """It goes on getting requests; the log says that it would be out if there were others."""
    gateway = await start_gateway(await start_endpoint(behave=_overloaded))
    for _ in range(5):
        assert (await gateway.ask()).body == b"busy"
    assert gateway.metric("headgate_gateway_ejections_total") == 0
    assert "is still used, as the pool has no better one, after 5 failures in a row" in caplog.text
