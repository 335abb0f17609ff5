"""Histories that hypothesis makes up, on a server that remembers little when it is the embedded one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent / "driver"))
for module in ("weir_history", "weir_writers", "weir_crowds", "weir_readers"):
    pytest.register_assert_rewrite(module)

# What expires or comes in minutes elsewhere does so within a history here.
SERVE = """
import asyncio, sys
from pathlib import Path
from headgate import apiserver
from headgate.cli import process

config = apiserver.Config(Path(sys.argv[1]), port=0, watch_events=64, bookmark_s=0.05)

async def main(stop):
    await apiserver.serve(config, stop=stop, on_ready=lambda running: print("ready", flush=True))

process.run(main, log_level="warning")
"""


@pytest.fixture(scope="module")
def brisk_server(another_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The server under test; the embedded one with little memory of the past, and with a bookmark soon."""
    with another_server(SERVE, tmp_path_factory.mktemp("brisk")) as made:
        yield made


@pytest.fixture(scope="module")
def asking(brisk_server: Any) -> Iterator[Any]:
    from api_server import ApiServer

    made = ApiServer(brisk_server.kubeconfig)
    yield made
    made.close()


@pytest.fixture(scope="module")
def two_namespaces(brisk_server: Any, namespaces_of: Any) -> Iterator[tuple[str, str]]:
    with namespaces_of(brisk_server, 2) as names:
        yield names
