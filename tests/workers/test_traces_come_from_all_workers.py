"""Several workers export traces, each by a process of its own that ends with it."""

import asyncio
import signal
from pathlib import Path


def exporters() -> set[int]:
    """The processes that export traces."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        if b"headgate.telemetry.tracing.exporter" in command:
            found.add(int(path.parent.name))
    return found


async def test_no_trace_is_lost(start_gateway, start_traffic, collector, attributes_of, eventually):
    """All requests of two workers have traces, and the page adds up what became of them, even after an
    upgrade; in the end no process is left."""
    others = exporters()
    flags = ("--tracing-endpoint", collector.url, "--tracing-sample-ratio", "1")
    gateway = await start_gateway("--workers", "2", *flags)
    assert "traces go to http://127.0.0.1:" in gateway.said()
    traffic = start_traffic(gateway)
    await traffic.more(60)
    gateway.signal(signal.SIGUSR2)
    before = set(gateway.workers())
    await eventually(lambda: len(new := set(gateway.workers())) == 2 and not new & before)
    await traffic.more(60)
    await traffic.stop()

    def ended() -> float:
        return gateway.metric("headgate_gateway_requests_total")

    def exported() -> float:
        return gateway.metric("headgate_gateway_trace_spans_total", result="exported")

    # A client hears the end of its response a little earlier than the counters do.
    await eventually(lambda: ended() >= traffic.served.total())
    await eventually(lambda: gateway.metric("headgate_gateway_traces_total", reason="sampled") == ended())
    assert gateway.metric("headgate_gateway_trace_spans_total", result="dropped") == 0
    await eventually(lambda: len({span.trace_id for span in collector.spans}) == ended())
    workers = {each["service.instance.id"] for each in collector.resources}
    assert len(workers) == 4
    page = await asyncio.to_thread(
        gateway.http.get, gateway.metrics_url, headers={"accept": "application/openmetrics-text"}
    )
    assert 'trace_id="' in page.text
    assert exported() <= len(collector.spans)
    assert len(exporters() - others) >= 2
    await gateway.stop()
    await eventually(lambda: not exporters() - others)
    assert traffic.failures == []
