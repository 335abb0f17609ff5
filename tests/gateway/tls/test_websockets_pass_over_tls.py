"""A WebSocket over TLS is one like any other."""

import pytest
import websockets

from headgate.simulator.model import PROFILES
from headgate.simulator.server import ServerSettings, listen, running


@pytest.mark.parametrize("protocols", [(), ("h2", "http/1.1"), ("http/1.1",)])
async def test_a_session_over_tls(start_gateway, secure, start_endpoint, protocols):
    """Where HTTP/1.1 was agreed on; messages of many records pass whole."""
    sock = listen("127.0.0.1", 0)
    settings = ServerSettings(engine=PROFILES["fast"].config, models=("m",), drain_s=0)
    engine = await start_endpoint()
    await engine.stop()
    engine.port = sock.getsockname()[1]
    async with running(settings, sock):
        secured = await secure(await start_gateway(engine))
        context = secured.context(*protocols)
        url = f"wss://localhost:{secured.port}/v1/realtime?model=m"
        if "h2" in protocols:
            with pytest.raises((websockets.InvalidMessage, EOFError)):
                await websockets.connect(url, ssl=context)
            return
        async with websockets.connect(url, ssl=context, max_size=None) as socket:
            await socket.recv()
            for message in ("hello", b"x" * 1_000_000):
                await socket.send(message)
                assert await socket.recv() == message
