"""How a server ends and what it leaves: orders to stop, and one server for each state directory."""

from __future__ import annotations

import asyncio
import datetime
import gc
import socket
import ssl
import sys
from collections import Counter
from pathlib import Path

import httpx2
import pytest
import yaml
from starlette.applications import Starlette

from headgate import serving
from headgate.apiserver import Config, StateError, StateInUseError, pki, running, serve
from headgate.apiserver.connections import BoundedProtocol, Door, Limits
from headgate.apiserver.shares import Shares


async def start(state: Path) -> asyncio.subprocess.Process:
    command = "from headgate.cli.apiserver import apiserver; apiserver()"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", command, "--state", str(state), "--port", "0", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout
    async with asyncio.timeout(60):
        line = await process.stdout.readline()
    assert line.startswith(b"API server ready at https://127.0.0.1:")
    return process


def connect(state: Path) -> httpx2.AsyncClient:
    config = yaml.safe_load((state / "kubeconfig").read_text())
    context = ssl.create_default_context(cafile=state / "pki" / "ca.crt")
    headers = {"authorization": f"Bearer {config['users'][0]['user']['token']}"}
    url = config["clusters"][0]["cluster"]["server"]
    return httpx2.AsyncClient(base_url=url, verify=context, headers=headers)


async def test_sigterm_is_a_clean_end(tmp_path: Path) -> None:
    """SIGTERM ends the process with code 0, quickly, and the same port of state can be opened again."""
    process = await start(tmp_path)
    process.terminate()
    async with asyncio.timeout(30):
        assert await process.wait() == 0


async def test_cancellation_is_a_clean_end(tmp_path: Path) -> None:
    """Who runs `serve` as a task may cancel it; the port and the state are free afterwards."""
    ready = asyncio.Event()
    task = asyncio.create_task(serve(Config(tmp_path, port=0), on_ready=lambda _: ready.set()))
    await ready.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with running(Config(tmp_path, port=0)), connect(tmp_path) as client:
        assert (await client.get("/readyz")).text == "ok"


@pytest.mark.parametrize("turns", range(6))
async def test_whoever_connects_at_the_end_is_let_go(tmp_path: Path, turns: int) -> None:
    """A connection that comes in any of the last turns of the event loop is closed by whoever accepted it."""
    identity = pki.ensure(tmp_path, "127.0.0.1", datetime.datetime.now(datetime.UTC))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(identity.cert, identity.key)
    listener = serving.listening_socket("127.0.0.1", 0)
    listener.listen()
    door = Door(Limits(), Shares(8), Counter())
    settings = serving.configuration(Starlette())

    def protocol() -> BoundedProtocol:
        return BoundedProtocol(settings, serving.State(), {})

    receiving = asyncio.create_task(door.receive(listener, tls, protocol))
    for _ in range(3):  # it waits for the first one
        await asyncio.sleep(0)
    with listener, socket.create_connection(listener.getsockname()):
        for _ in range(turns):
            await asyncio.sleep(0)
        receiving.cancel()
        await asyncio.wait([receiving])
        del receiving
        gc.collect()  # warns of a connection that nobody has closed


async def test_a_state_directory_has_one_server(tmp_path: Path) -> None:
    """A second server on the same state is refused with what to do, instead of two truths."""
    async with running(Config(tmp_path, port=0)):
        with pytest.raises(StateInUseError, match="choose another --state directory"):
            async with running(Config(tmp_path, port=0)):
                pass


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    """Nothing of it is overwritten, and the message says what to do."""
    path = tmp_path / "objects.sqlite"
    path.write_bytes(b"not a database, but somebody's notes" * 100)
    with pytest.raises(StateError, match=r"objects\.sqlite: file is not a database; move it away"):
        async with running(Config(tmp_path, port=0)):
            pass
    assert path.read_bytes().startswith(b"not a database")
