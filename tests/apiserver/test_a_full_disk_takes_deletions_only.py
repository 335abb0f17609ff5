"""On a full disk objects can be read and deleted, /readyz tells, and the server recovers by itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sqlite3
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx2
import pytest
import yaml

from headgate.apiserver import space, storage
from headgate.apiserver.parts import Parts
from headgate.apiserver.storage import Key, Store

MERGE = {"content-type": "application/merge-patch+json"}
MEGABYTE = "x" * 1_000_000
DISK_MB = 40


def config_map(name: str, weight: str = "") -> Any:
    return {"metadata": {"name": name}, "data": {"weight": weight}}


async def test_a_full_database_takes_deletions_only(
    parts: Parts, client: httpx2.AsyncClient, config_maps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Creates and updates are 507, reads and deletes go on, /readyz fails by name until there is space."""
    monkeypatch.setattr(space, "TRY_AGAIN_S", 0)
    for name in ("held", "a"):
        assert (await client.post(config_maps, json=config_map(name))).status_code == 201
    held = {"metadata": {"finalizers": ["test.example/hold"]}}
    await client.patch(f"{config_maps}/held", json=held, headers=MERGE)
    pages = parts.store._db.execute("PRAGMA page_count").fetchone()[0]
    parts.store._db.execute(f"PRAGMA max_page_count={pages}")
    refused = await client.post(config_maps, json=config_map("b", MEGABYTE))
    assert (refused.status_code, refused.json()["reason"]) == (507, "InsufficientStorage")
    assert "database or disk is full" in refused.json()["message"]
    assert "free space on its disk; deletions still work" in refused.json()["message"]
    monkeypatch.setattr(space, "ROOM_BYTES", 1 << 60)  # which no disk has
    refused = await client.patch(f"{config_maps}/a", json={"data": {"more": "y"}}, headers=MERGE)
    assert refused.status_code == 507

    assert len((await client.get(config_maps)).json()["items"]) == 2
    codes = [(await client.get(path)).status_code for path in ("/livez", "/healthz", "/readyz")]
    assert codes == [200, 200, 500]
    assert "[-]writes failed: database or disk is full" in (await client.get("/readyz")).text

    assert (await client.delete(f"{config_maps}/held")).json()["metadata"]["deletionTimestamp"]
    freed = await client.patch(f"{config_maps}/held", json={"metadata": {"finalizers": None}}, headers=MERGE)
    assert freed.status_code == 200
    assert (await client.delete(f"{config_maps}/a")).status_code == 200
    assert (await client.get(config_maps)).json()["items"] == []

    monkeypatch.setattr(space, "ROOM_BYTES", 1 << 20)
    parts.store._db.execute("PRAGMA max_page_count=100000")
    assert (await client.get("/readyz")).text == "ok"
    assert (await client.post(config_maps, json=config_map("b", MEGABYTE))).status_code == 201


def test_recovery_is_tried_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood of writes on a full disk does not become a flood of attempts."""
    store, now, attempts = Store(tmp_path / "objects.sqlite"), 0.0, 0
    usage = shutil.disk_usage(tmp_path)

    def no_space(*_: object) -> Any:
        nonlocal attempts
        attempts += 1
        return usage._replace(free=0)

    monkeypatch.setattr(shutil, "disk_usage", no_space)
    try:
        kept = space.Space(store._db, tmp_path / "other", lambda: True, lambda: now)
        assert kept.failure == "there is too little free space"
        for second in range(1, 4):
            now = second * 1.01
            for _ in range(100):
                kept.recover()
    finally:
        store.close()
    assert attempts == 4


async def test_the_file_shrinks_when_objects_go(tmp_path: Path) -> None:
    """Space of deleted objects goes back to the disk; the log is not kept as long as its longest batch."""
    path = tmp_path / "objects.sqlite"
    store = Store(path)
    try:
        for number in range(60):
            store.put(Key("things", "", f"n{number}"), {"metadata": {}, "weight": MEGABYTE})
        await store.settled()
        for number in range(60):
            store.delete(Key("things", "", f"n{number}"))
        await store.settled()
        for _ in range(10):
            store.tidy()
        store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        assert path.stat().st_size < 8_000_000
    finally:
        store.close()


async def test_a_file_of_an_earlier_release_learns_to_shrink(tmp_path: Path) -> None:
    """It is converted when it is opened, with all of its objects."""
    path = tmp_path / "objects.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(storage._SCHEMA)
        db.execute("INSERT INTO objects VALUES ('things', '', 'old', 7, '{}')")
        db.commit()
    store = Store(path)
    try:
        assert store._db.execute("PRAGMA auto_vacuum").fetchone()[0] == 2
        assert store.get(Key("things", "", "old")) is not None
    finally:
        store.close()


@dataclass
class Disk:
    """A file system of its own, as the process that has it mounted sees it and as we do."""

    inside: Path
    pid: int
    said: IO[str]

    @property
    def seen(self) -> Path:
        return Path(f"/proc/{self.pid}/root{self.inside}")

    @property
    def server(self) -> int:
        """The process of the server: a child of the shell, or what the shell became."""
        if Path(f"/proc/{self.pid}/comm").read_text().strip() != "sh":
            return self.pid
        return int(Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text())

    def restart(self) -> None:
        """Ends the server; the shell starts another one."""
        (self.seen / "again").touch()
        os.kill(self.server, signal.SIGTERM)
        assert self.said.readline().startswith("API server ready")

    def fill(self) -> None:
        """Somebody else takes all the space there is."""
        with (self.seen / "filler").open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """An API server in a process of its own, whose state is alone on a small disk."""
    if not can_mount():
        pytest.skip("needs user namespaces for a disk of its own; the test above fills a database instead")
    state = tmp_path / "state"
    state.mkdir()
    script = (
        f'mount -t tmpfs -o size={DISK_MB}m none "$0" && "$@" && if [ -e "$0/again" ]; then exec "$@"; fi'
    )
    serve = [sys.executable, "-m", "headgate", "apiserver", "--state", str(state), "--port", "0"]
    command = ["unshare", "-rm", "sh", "-c", script, str(state), *serve]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        disk = Disk(state, process.pid, process.stdout)
        try:
            assert process.stdout.readline().startswith("API server ready")
            yield disk
        finally:
            os.kill(disk.server, signal.SIGTERM)
            assert process.wait(100) == 0


@contextlib.asynccontextmanager
async def admin(disk: Disk) -> AsyncIterator[httpx2.AsyncClient]:
    config = yaml.safe_load((disk.seen / "kubeconfig").read_text())
    token = config["users"][0]["user"]["token"]
    context = ssl.create_default_context(cafile=str(disk.seen / "pki" / "ca.crt"))
    async with httpx2.AsyncClient(
        base_url=config["clusters"][0]["cluster"]["server"],
        verify=context,
        headers={"authorization": f"Bearer {token}"},
        timeout=60,
    ) as client:
        yield client


async def test_a_server_survives_a_full_disk(disk: Disk, config_maps: str) -> None:
    """Its own objects fill the disk: after some deletes, creates succeed again; nothing is lost."""
    async with admin(disk) as client:
        made = []
        for number in range(DISK_MB):
            answer = await client.post(config_maps, json=config_map(f"n{number}", MEGABYTE))
            if answer.status_code != 201:
                break
            made.append(f"n{number}")
        assert answer.status_code == 507, answer.text
        assert os.statvfs(disk.seen).f_bavail >= 0
        ready = await client.get("/readyz")
        assert (ready.status_code, "[-]writes failed" in ready.text) == (500, True)
        assert (await client.get("/livez")).status_code == 200
        listed = (await client.get(config_maps)).json()["items"]
        assert {item["metadata"]["name"] for item in listed} == set(made)
        for name in made[: len(made) // 2]:
            assert (await client.delete(f"{config_maps}/{name}")).status_code == 200
        async with asyncio.timeout(60):
            while (await client.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.1)
        assert (await client.post(config_maps, json=config_map("again", MEGABYTE))).status_code == 201


async def test_somebody_else_fills_the_disk(disk: Disk, config_maps: str) -> None:
    """Another file takes everything: every object can still be deleted; when the file goes, all is well."""
    async with admin(disk) as client:
        for number in range(40):
            answer = await client.post(config_maps, json=config_map(f"n{number}", "x" * 10_000))
            assert answer.status_code == 201
        filler = disk.seen / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(100_000))
        number = 0
        while (
            answer := await client.post(config_maps, json=config_map(f"m{number}", MEGABYTE))
        ).status_code == 201:
            number += 1
        assert answer.status_code == 507
        with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while (os.statvfs(disk.seen).f_bavail << 12) > 1 << 20:  # of what the server has given up, too
                file.write(bytes(100_000))
        for name in range(40):
            assert (await client.delete(f"{config_maps}/n{name}")).status_code == 200
        assert (await client.get("/readyz")).status_code == 500
        filler.unlink()
        async with asyncio.timeout(60):
            while (await client.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.1)
        assert (await client.post(config_maps, json=config_map("again", MEGABYTE))).status_code == 201


async def test_nobody_takes_the_reserve(disk: Disk, config_maps: str) -> None:
    """On a full disk, also after a restart, all is read and deleted; with space, writes are taken again."""
    reserve = disk.seen / "objects.sqlite-reserve"
    async with admin(disk) as client:
        number, made = 0, 201
        while made == 201:
            made = (await client.post(config_maps, json=config_map(f"n{number}", "x" * 100_000))).status_code
            number += 1
        disk.fill()
        assert reserve.stat().st_blocks * 512 >= space.RESERVE_BYTES
        assert os.statvfs(disk.seen).f_bavail == 0
        names = {item["metadata"]["name"] for item in (await client.get(config_maps)).json()["items"]}
        assert (len(names), made) == (number - 1, 507)
        for name in sorted(names)[:3]:
            assert (await client.delete(f"{config_maps}/{name}")).status_code == 200
            names.remove(name)
    disk.restart()
    disk.fill()  # with what was the log's
    async with admin(disk) as client:  # at another port, of which the kubeconfig tells
        assert {item["metadata"]["name"] for item in (await client.get(config_maps)).json()["items"]} == names
        assert "[-]writes failed" in (await client.get("/readyz")).text
        assert (await client.post(config_maps, json=config_map("again"))).status_code == 507
        assert (await client.delete(f"{config_maps}/{names.pop()}")).status_code == 200
        assert (await client.delete(config_maps)).status_code == 200
        assert (await client.get(config_maps)).json()["items"] == []
        (disk.seen / "filler").unlink()
        async with asyncio.timeout(60):
            while (await client.get("/readyz")).status_code != 200:
                await asyncio.sleep(0.1)
        assert (await client.post(config_maps, json=config_map("again"))).status_code == 201
