"""A collector that is down, slow or wrong, and an exporting process that dies: requests go on as without."""

import os
import signal

import pytest


def results(gateway):
    return {
        result: gateway.metric("headgate_gateway_trace_spans_total", result=result)
        for result in ("exported", "failed", "dropped")
    }


async def asked(gateway, times):
    client = await gateway.connect()
    for _ in range(times):
        client.post()
        assert (await client.response()).status == 200
    client.close()


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_a_collector_that_refuses(
    start_exporting, start_endpoint, collector, eventually, capfd, status
):
    """Its spans are counted as failed, and the log says why; it is used again as soon as it accepts them."""
    gateway, _ = await start_exporting(await start_endpoint(b"{}"))
    collector.status = status
    await asked(gateway, 2)
    await eventually(lambda: results(gateway)["failed"] == 6)
    collector.status = 200
    await asked(gateway, 1)
    await eventually(lambda: results(gateway)["exported"] == 3)
    assert len(collector.spans) == 3
    assert str(status) in capfd.readouterr().err


async def test_a_collector_that_is_down(
    start_exporting, start_endpoint, collector, eventually, monkeypatch, capfd
):
    """Spans are given up after the exporter's timeout, and the log says why."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")
    collector.close()
    gateway, _ = await start_exporting(await start_endpoint(b"{}"))
    await asked(gateway, 2)
    await eventually(lambda: results(gateway)["failed"] == 6)
    await eventually(lambda: "Connection refused" in capfd.readouterr().err)


async def test_a_collector_that_does_not_respond(
    start_exporting, start_endpoint, collector, eventually, monkeypatch
):
    """A bounded number of spans waits for it; others are dropped, and all are counted."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "30")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")
    gateway, running = await start_exporting(await start_endpoint(b"{}"))
    collector.is_stuck.set()
    await asked(gateway, 40)
    # Thirty spans wait, and one batch at most is on its way: none, if all come before the first leaves.
    await eventually(lambda: running.sender.statistics()["waiting"] <= 30 + 9)
    collector.is_stuck.clear()
    await eventually(lambda: results(gateway)["exported"] + results(gateway)["dropped"] == 120)
    assert results(gateway)["failed"] == 0
    assert 30 <= results(gateway)["exported"] <= 30 + 9
    assert len(collector.spans) == results(gateway)["exported"]


async def test_an_exporting_process_that_dies(start_exporting, start_endpoint, collector, eventually):
    """Another one is started; what the first had is lost, and counted."""
    gateway, running = await start_exporting(await start_endpoint(b"{}"))
    await asked(gateway, 1)
    await eventually(lambda: results(gateway)["exported"] == 3)
    sender = running.sender
    first = sender._process
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    sender._started_at -= 60  # as if it had run for a minute
    await asked(gateway, 2)
    assert results(gateway)["dropped"] >= 3
    await eventually(lambda: sender._socket is not None)
    await asked(gateway, 1)
    await eventually(lambda: results(gateway)["exported"] >= 6)
    assert sender._process.pid != first.pid
    await eventually(lambda: sum(results(gateway).values()) == 12)


async def test_the_rest_is_exported_at_the_end(start_exporting, start_endpoint, collector, monkeypatch):
    """Without the usual delay."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "600000")
    gateway, running = await start_exporting(await start_endpoint(b"{}"))
    await asked(gateway, 2)
    running.sender.close(30.0)  # it may not even have begun
    assert len(collector.spans) == 6
    assert running.sender._process.returncode == 0
