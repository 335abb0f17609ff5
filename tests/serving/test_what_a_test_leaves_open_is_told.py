"""A test that leaves something open on its event loop fails itself, instead of another or of none."""

import asyncio

import pytest
import uvloop


async def forget() -> None:
    """Listens, and never ends that."""
    await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)


def test_the_end_of_its_loop_fails():
    """It does not wait for what is open either."""
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    runner.run(forget())
    with pytest.raises(ResourceWarning, match="unclosed resource <TCPServer"):
        runner.close()
