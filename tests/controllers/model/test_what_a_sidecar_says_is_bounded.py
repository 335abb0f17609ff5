"""A sidecar is a program of whoever wrote the Model: its numbers are refused before anything is computed."""

import asyncio

import pytest

from headgate.controllers.model.sidecars import Address, SidecarError, Sidecars


@pytest.mark.parametrize("done", ["1" * 400, "-1", "1.5"])
async def test_amounts_that_no_download_has_are_refused(done):
    """They could not be shown: the Model would have no status."""

    async def respond(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = f'{{"downloads": [{{"name": "d", "bytes_done": {done}, "bytes_total": {done}}}]}}'
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server, Sidecars() as sidecars:
        address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        with pytest.raises(SidecarError, match="cannot be read"):
            await sidecars.downloads(address, "token")
