"""Deletions have a reserve of the disk, and their answers say how far they got."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headgate.apiserver import Config, space
from headgate.apiserver.commits import GroupCommit
from headgate.apiserver.parts import Parts
from headgate.apiserver.storage import Key


def config_map(name: str) -> Any:
    return {"metadata": {"name": name}}


@pytest.fixture
def reserve(parts: Parts, tmp_path: Path) -> Path:
    (found,) = tmp_path.rglob("objects.sqlite-reserve")
    return found


async def test_a_deletion_gets_the_reserve(
    client: httpx2.AsyncClient, config_maps: str, reserve: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A create does not touch it. A deletion that fails is done again without it; then it is made again."""
    monkeypatch.setattr(space, "ROOM_BYTES", 1 << 60)
    assert os.stat(reserve).st_blocks * 512 >= space.RESERVE_BYTES
    await client.post(config_maps, json=config_map("a"))
    commits: list[bool] = []

    def write(self: Any) -> None:
        commits.append(reserve.exists())
        if reserve.exists():
            raise sqlite3.OperationalError("database or disk is full")
        write_log(self)

    write_log = GroupCommit._write_log
    monkeypatch.setattr(GroupCommit, "_write_log", write)
    refused = await client.post(config_maps, json=config_map("b"))
    assert (refused.status_code, commits) == (507, [True])
    assert (await client.delete(f"{config_maps}/a")).status_code == 200
    assert commits == [True, True, False]
    assert os.stat(reserve).st_blocks * 512 >= space.RESERVE_BYTES
    assert (await client.get(f"{config_maps}/a")).status_code == 404


async def test_the_refusal_tells_when_the_reserve_is_used_up(
    client: httpx2.AsyncClient, config_maps: str, reserve: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then a deletion is 507 as well, and no answer says that deletions still work."""
    await client.post(config_maps, json=config_map("a"))
    monkeypatch.setattr(space, "ROOM_BYTES", 1 << 60)
    monkeypatch.setattr(space.Space, "refill", lambda _: None)
    monkeypatch.setattr(GroupCommit, "_write_log", full)
    answers = [
        await client.post(config_maps, json=config_map("b")),
        await client.delete(f"{config_maps}/a"),
        await client.post(config_maps, json=config_map("b")),
    ]
    assert [answer.status_code for answer in answers] == [507, 507, 507]
    told = [answer.json()["message"].rsplit(";", 1)[1] for answer in answers]
    used_up = " deletions may fail too, because their reserve is used up"
    assert told == [" deletions still work", used_up, used_up]
    assert len((await client.get(config_maps)).json()["items"]) == 1


def full(*_: object) -> None:
    raise sqlite3.OperationalError("database or disk is full")


async def test_a_collection_tells_how_many_were_deleted(
    client: httpx2.AsyncClient, config_maps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When its first part was stored and the next could not be, the answer is 507, not the list."""
    for number in range(25):
        await client.post(config_maps, json=config_map(f"n{number}"))
    commits: list[Any] = []

    def write(self: Any) -> None:
        commits.append(self)
        if len(commits) > 1:
            full()
        write_log(self)

    write_log = GroupCommit._write_log
    monkeypatch.setattr(GroupCommit, "_write_log", write)
    answer = await client.delete(config_maps)
    assert answer.status_code == 507
    told = "10 objects of the collection were deleted, the others were not: the API server cannot write"
    assert answer.json()["message"].startswith(told)
    assert len((await client.get(config_maps)).json()["items"]) == 15


async def test_a_deletion_does_not_fail_with_a_create(
    parts: Parts, client: httpx2.AsyncClient, config_maps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion that shares its transaction with a write that the disk refuses is done again without it."""
    await client.post(config_maps, json=config_map("a"))
    failed: list[int] = []

    def write(self: Any) -> None:
        if not self._gathering.only_deletes:
            failed.append(len(self._gathering.events))
            full()
        write_log(self)

    write_log = GroupCommit._write_log
    monkeypatch.setattr(GroupCommit, "_write_log", write)
    made, gone = await asyncio.gather(
        client.post(config_maps, json=config_map("b")), client.delete(f"{config_maps}/a")
    )
    assert (made.status_code, gone.status_code) == (507, 200)
    assert failed == [2]
    assert (await client.get(config_maps)).json()["items"] == []


def test_a_server_with_objects_starts_when_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Definitions of another release stay away, and what is there is served."""
    Parts(Config(tmp_path, definitions=[])).store.close()
    monkeypatch.setattr(GroupCommit, "_write_log", full)
    parts = Parts(Config(tmp_path))
    try:
        assert parts.store.get(Key("namespaces", "", "default")) is not None
        assert parts.store.write_failure() == "database or disk is full"
    finally:
        parts.large_writes.close()
        parts.store.close()
