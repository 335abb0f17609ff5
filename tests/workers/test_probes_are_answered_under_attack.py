"""Nobody who can reach the ports of the pages keeps a probe or a scrape from its answer."""

import asyncio
from urllib.parse import urlsplit

IDLE = 300


async def test_idle_connections_do_not_lock_probes_out(start_gateway):
    """Hundreds of clients that send nothing, or half a head, are closed for those that ask."""
    gateway = await start_gateway()
    attackers = []
    for url in (gateway.admin_url, gateway.metrics_url):
        place = urlsplit(url)
        for number in range(IDLE):
            _, writer = await asyncio.open_connection(place.hostname, place.port)
            writer.write(b"GET /readyz HTTP/1.1\r\nx: " if number % 2 else b"")
            attackers.append(writer)
    assert (await asyncio.to_thread(gateway.get, "/readyz")).status_code == 200
    for page in ("admin", "metrics"):
        closed = await asyncio.to_thread(
            gateway.metric, "headgate_gateway_page_connections_rejected_total", page=page
        )
        assert closed >= IDLE - 64
    for writer in attackers:
        writer.transport.abort()
