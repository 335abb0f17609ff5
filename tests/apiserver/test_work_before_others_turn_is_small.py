"""Requests without a token, with long queries, or with long selectors leave each turn to others."""

from __future__ import annotations

import asyncio
import datetime
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headgate.apiserver import Tokens, selectors
from headgate.apiserver.app import application
from headgate.apiserver.parts import Parts
from headgate.apiserver.snapshots import PART_BYTES, Scan
from headgate.apiserver.targets import Target, WriteOptions
from headgate.apiserver.turns import AT_ONCE

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
LONG = b"&".join(b"a%d=%%41" % number for number in range(99))


@pytest.mark.parametrize(
    ("method", "path", "query", "has_token", "status"),
    [
        ("GET", CONFIG_MAPS, b"", False, 401),
        ("GET", "/version", b"", False, 200),
        ("POST", CONFIG_MAPS, LONG, True, 403),
    ],
    ids=["stranger", "open path", "long query"],
)
async def test_few_begin_in_one_pass(
    parts: Parts, tmp_path: Path, method: str, path: str, query: bytes, has_token: bool, status: int
) -> None:
    """Of forty requests that come at once, a few are answered in each pass of the event loop."""
    token = Tokens(tmp_path / "state").create("eve", "read-only", NOW)
    app = application(parts, "admin")
    headers = [(b"authorization", f"Bearer {token}".encode())] if has_token else []
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query,
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "http_version": "1.1",
        "scheme": "https",
        "root_path": "",
    }
    loop, current, is_over = asyncio.get_running_loop(), 0, False
    answered: Counter[int] = Counter()

    def next_pass() -> None:
        nonlocal current
        current += 1
        if not is_over:
            loop.call_soon(next_pass)

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == status
            answered[current] += 1

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    next_pass()
    await asyncio.gather(*(app(dict(scope), receive, send) for _ in range(40)))  # type: ignore[arg-type]
    is_over = True
    assert answered.total() == 40
    assert max(answered.values()) <= AT_ONCE


@pytest.mark.parametrize(
    ("by_labels", "by_fields", "most"),
    [
        (",".join(f"!x{number}" for number in range(100)), None, PART_BYTES // selectors.REQUIREMENT_BYTES),
        (None, ",".join(["metadata.name!=x"] * 100), PART_BYTES // selectors.FIELD_BYTES),
    ],
    ids=["labels", "fields"],
)
async def test_requirements_count_for_a_part_of_a_list(
    parts: Parts, by_labels: str | None, by_fields: str | None, most: int
) -> None:
    """A part ends when so many requirements may have been compared; all parts together are the list."""
    served = parts.registry.find("", "v1", "configmaps")
    assert served
    for number in range(200):
        obj = {"metadata": {"name": f"n{number:03}"}}
        parts.objects.create(Target(served, "default", ""), obj, WriteOptions(), [])
    await parts.store.settled()
    selector = selectors.parse(by_labels, by_fields, selectors.selectable_fields(served))
    scan = Scan(parts.store, parts.hub, served, "default", selector, revision=parts.store.revision)
    found = []
    while not scan.done:
        found.append(len(scan.part()))
    assert sum(found) == 200
    assert max(found) * 100 <= most + 100
