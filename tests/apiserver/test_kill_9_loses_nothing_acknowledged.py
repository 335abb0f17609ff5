"""The promise of the store, with a real process and a real SIGKILL in the midst of many writers.

`HEADGATE_KILLS=50` kills more often than the few times that every run can afford.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import ssl
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
KILLS = int(os.environ.get("HEADGATE_KILLS", "2"))
WRITERS = 16
MERGE_PATCH = "application/merge-patch+json"


class Client:
    """One keep-alive connection; costs little, so that the server has much to do when it dies."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self._reader, self._writer, self._token = reader, writer, token

    @classmethod
    async def connect(cls, state: Path) -> Client:
        config = yaml.safe_load((state / "kubeconfig").read_text())
        url = urlsplit(config["clusters"][0]["cluster"]["server"])
        context = ssl.create_default_context(cafile=state / "pki" / "ca.crt")
        reader, writer = await asyncio.open_connection(url.hostname, url.port, ssl=context, limit=1 << 24)
        return cls(reader, writer, config["users"][0]["user"]["token"])

    async def send(self, method: str, path: str, body: Any = None, media: str = "application/json") -> None:
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: {media}\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        self._writer.write(head.encode() + content)
        await self._writer.drain()

    async def request(self, method: str, path: str, body: Any = None, media: str = "application/json") -> Any:
        """The answer; ConnectionError or IncompleteReadError if the server died before it was complete."""
        await self.send(method, path, body, media)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].split("\r\n")[0])
        answer = json.loads(await self._reader.readexactly(length))
        assert head.split()[1] in ("200", "201"), answer
        return answer

    async def event(self) -> Any:
        """The next event of a watch."""
        while not (line := await self._reader.readline()).startswith(b"{"):
            assert line
        return json.loads(line)

    def close(self) -> None:
        self._writer.transport.abort()


@dataclass
class History:
    """What a writer knows: the last acknowledged value of each of its objects, and what is under way."""

    values: dict[str, int | None] = field(default_factory=dict)
    """By name; None for an object whose deletion was acknowledged."""
    under_way: tuple[str, int | None] | None = None
    newest: int = 0

    def may_be(self, name: str, value: int | None) -> bool:
        return value == self.values.get(name) or self.under_way == (name, value)


async def write(
    client: Client, history: History, prefix: str, rng: random.Random, count: asyncio.Queue[int]
) -> None:
    """Creates, updates and deletes objects of its own until the server dies."""
    number = 0
    present: list[str] = []
    try:
        while True:
            number += 1
            action = rng.choice("ccud") if present else "c"
            name = f"{prefix}-{number}" if action == "c" else rng.choice(present)
            value = None if action == "d" else number
            # Two fields that a half-written object would not agree on, and some weight.
            data = {"value": str(number), "twin": str(number), "weight": "x" * rng.randrange(2000)}
            history.under_way = (name, value)
            if action == "c":
                made = await client.request("POST", CONFIG_MAPS, {"metadata": {"name": name}, "data": data})
                present.append(name)
            elif action == "u":
                made = await client.request("PATCH", f"{CONFIG_MAPS}/{name}", {"data": data}, MERGE_PATCH)
            else:
                await client.request("DELETE", f"{CONFIG_MAPS}/{name}")
                present.remove(name)
                made = None
            history.values[name], history.under_way = value, None
            if made:
                history.newest = max(history.newest, int(made["metadata"]["resourceVersion"]))
            count.put_nowait(1)
    except (ConnectionError, asyncio.IncompleteReadError):
        return


async def start(state: Path) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "headgate", "apiserver", "--state", str(state), "--port", "0"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout
    async with asyncio.timeout(60):
        line = await process.stdout.readline()
    assert line.startswith(b"API server ready at https://127.0.0.1:")
    return process


async def kill_amid_writes(
    state: Path, process: asyncio.subprocess.Process, rng: random.Random
) -> list[History]:
    """Lets many writers write, kills the server after a few hundred writes; what the writers know then."""
    histories = [History() for _ in range(WRITERS)]
    count: asyncio.Queue[int] = asyncio.Queue()
    clients = [await Client.connect(state) for _ in histories]
    prefix = f"r{rng.randrange(10**9)}"
    async with asyncio.TaskGroup() as tasks:
        for number, (client, history) in enumerate(zip(clients, histories, strict=True)):
            tasks.create_task(
                write(client, history, f"{prefix}-{number}", random.Random(rng.random()), count)
            )
        for _ in range(rng.randrange(100, 300)):
            await count.get()
        process.kill()
        await process.wait()
    for client in clients:
        client.close()
    return histories


def check(listed: Any, histories: list[History], before: dict[str, str]) -> dict[str, str]:
    """Every acknowledged write is there, every other is there whole or not at all; the versions by name."""
    data = {item["metadata"]["name"]: item["data"] for item in listed["items"]}
    versions = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed["items"]}
    assert all(content["value"] == content["twin"] for content in data.values())
    known = set()
    for history in histories:
        assert history.newest <= int(listed["metadata"]["resourceVersion"])
        names = history.values.keys() | ({history.under_way[0]} if history.under_way else set())
        known |= names
        for name in names:
            value = int(data[name]["value"]) if name in data else None
            assert history.may_be(name, value), (name, value, history.values.get(name), history.under_way)
    assert {name: version for name, version in versions.items() if name not in known} == before
    assert len(set(versions.values())) == len(versions)
    assert all(int(version) <= int(listed["metadata"]["resourceVersion"]) for version in versions.values())
    return versions


async def expired(client: Client, version: int) -> bool:
    """Whether a watch from this version is told to list again."""
    await client.send("GET", f"{CONFIG_MAPS}?watch=true&resourceVersion={version}")
    told = await client.event()
    return (told["type"], told["object"]["code"]) == ("ERROR", 410)


@pytest.mark.timeout(240 + 10 * KILLS)
async def test_acknowledged_writes_survive_sigkill(tmp_path: Path) -> None:
    """After kill -9 amid writes each acknowledged one is there, none is half there, and versions rise."""
    rng = random.Random(os.environ.get("HEADGATE_SEED", "gate"))
    versions: dict[str, str] = {}
    histories: list[History] = []
    for number in range(KILLS + 1):
        process = await start(tmp_path)
        try:
            client, watching, other = [await Client.connect(tmp_path) for _ in range(3)]
            listed = await client.request("GET", CONFIG_MAPS)
            versions = check(listed, histories, versions) if number else _versions(listed)
            now = listed["metadata"]["resourceVersion"]
            assert not number or await expired(other, int(now) - 1)
            await watching.send("GET", f"{CONFIG_MAPS}?watch=true&resourceVersion={now}")
            made = await client.request("POST", CONFIG_MAPS, _marker(number))
            assert int(made["metadata"]["resourceVersion"]) > int(now)
            told = await watching.event()
            assert (told["type"], told["object"]["metadata"]) == ("ADDED", made["metadata"])
            versions[f"marker-{number}"] = made["metadata"]["resourceVersion"]
            for each in (client, watching, other):
                each.close()
            if number < KILLS:
                histories = await kill_amid_writes(tmp_path, process, rng)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def _versions(listed: Any) -> dict[str, str]:
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed["items"]}


def _marker(number: int) -> Any:
    return {"metadata": {"name": f"marker-{number}"}, "data": {"value": "0", "twin": "0"}}
