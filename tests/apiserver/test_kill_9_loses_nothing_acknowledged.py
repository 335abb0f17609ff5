"""The promise of the store, with a real process and a real SIGKILL."""

from __future__ import annotations

import asyncio
import ssl
import sys
from pathlib import Path

import httpx2
import pytest
import yaml

from headgate.apiserver import Config, StateInUseError, running, serve

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
ROUNDS = 3


async def start(state: Path) -> asyncio.subprocess.Process:
    command = "from headgate.cli.apiserver import apiserver; apiserver()"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", command, "--state", str(state), "--port", "0", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout
    async with asyncio.timeout(20):
        line = await process.stdout.readline()
    assert line.startswith(b"API server ready at https://127.0.0.1:")
    return process


def connect(state: Path) -> httpx2.AsyncClient:
    config = yaml.safe_load((state / "kubeconfig").read_text())
    context = ssl.create_default_context(cafile=state / "pki" / "ca.crt")
    headers = {"authorization": f"Bearer {config['users'][0]['user']['token']}"}
    url = config["clusters"][0]["cluster"]["server"]
    return httpx2.AsyncClient(base_url=url, verify=context, headers=headers)


async def write_until_killed(client: httpx2.AsyncClient, prefix: str, acknowledged: dict[str, str]) -> None:
    """Creates objects and updates each once; notes what was acknowledged last."""
    number = 0
    try:
        while True:
            name = f"{prefix}-{number}"
            made = await client.post(CONFIG_MAPS, json={"metadata": {"name": name}, "data": {"v": "1"}})
            acknowledged[name] = made.json()["metadata"]["resourceVersion"]
            patched = await client.patch(
                f"{CONFIG_MAPS}/{name}",
                json={"data": {"v": "2"}},
                headers={"content-type": "application/merge-patch+json"},
            )
            acknowledged[name] = patched.json()["metadata"]["resourceVersion"]
            number += 1
    except httpx2.TransportError:
        return


async def test_acknowledged_writes_survive_sigkill(tmp_path: Path) -> None:
    """After kill -9 in the midst of writes every acknowledged write is there, and versions go on rising."""
    acknowledged: dict[str, str] = {}
    for number in range(ROUNDS):
        process = await start(tmp_path)
        async with connect(tmp_path) as client, asyncio.TaskGroup() as tasks:
            for writer in "ab":
                tasks.create_task(write_until_killed(client, f"{writer}{number}", acknowledged))
            await asyncio.sleep(0.3)
            process.kill()
            await process.wait()
    assert len(acknowledged) > 3 * ROUNDS
    async with running(Config(tmp_path, port=0)), connect(tmp_path) as client:
        listed = (await client.get(CONFIG_MAPS)).json()
        stored = {i["metadata"]["name"]: i["metadata"]["resourceVersion"] for i in listed["items"]}
    newest = int(listed["metadata"]["resourceVersion"])
    for name, version in acknowledged.items():
        # An update that was not acknowledged may have been stored: then the version is a later one.
        assert int(version) <= int(stored[name]) <= newest
    assert len(set(stored.values())) == len(stored)


async def test_sigterm_is_a_clean_end(tmp_path: Path) -> None:
    """SIGTERM ends the process with code 0, quickly, and the same port of state can be opened again."""
    process = await start(tmp_path)
    process.terminate()
    async with asyncio.timeout(5):
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


async def test_a_state_directory_has_one_server(tmp_path: Path) -> None:
    """A second server on the same state is refused with what to do, instead of two truths."""
    async with running(Config(tmp_path, port=0)):
        with pytest.raises(StateInUseError, match="choose another --state directory"):
            async with running(Config(tmp_path, port=0)):
                pass
