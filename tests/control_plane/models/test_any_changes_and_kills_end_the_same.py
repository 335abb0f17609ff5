"""The same as on a laptop: Models change at random moments while processes are killed.

HEADGATE_SECONDS says how long (30), and HEADGATE_SEED what happens. The API server is a real one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from fleet_of_models import Models, client_of
from model_story import SECONDS, Sources, any_story
from up_pieces import Pieces, answers, processes_of, wait

pytestmark = pytest.mark.timeout(900 + SECONDS)
HEADGATE = [sys.executable, "-m", "headgate"]
ENGINE = ["headgate", "simulate", "as", "--profile", "fast", "--base-s", "0.02"]


@pytest.fixture
def pieces(tmp_path) -> Iterator[Pieces]:
    running = Pieces(tmp_path)
    yield running
    running.end()


async def test_a_model_ends_as_one_that_is_made_anew(
    cluster, lws, namespace, filled_hub, pieces, tmp_path, unused_tcp_port_factory
):
    """Nobody got an error while an engine could answer, and nothing is left over."""
    images = tmp_path / "images.yaml"
    programs = [{"image": each, "command": ENGINE, "wrap": True} for each in ("vllm/*", "lmsysorg/*")]
    images.write_text(yaml.safe_dump({"images": programs}))
    own = ("--kubeconfig", cluster.kubeconfig)
    state = tmp_path / "state"
    pieces.start(
        *("node", "node", *own, "--node-name", "kills", "--state", state, "--pod-cidr", "10.244.97.0/24"),
        *("--node-ip", "10.244.0.1", "--images", images),
    )
    pieces.start("controller", "controller", *own, "--namespace", namespace)
    gateways = {}
    for name in ("gateway", "gateway-2"):
        port, admin, metrics = (unused_tcp_port_factory() for _ in range(3))
        gateways[name] = (f"http://127.0.0.1:{port}", f"http://127.0.0.1:{admin}")
        pieces.start(
            *(name, "gateway", *own, "--namespace", namespace, "--port", port, "--admin-port", admin),
            *("--metrics-port", metrics, "--queue-no-endpoint-wait-s", 0),
        )
    for _, admin in gateways.values():
        await asyncio.to_thread(wait, lambda admin=admin: answers(f"{admin}/readyz"))
    cache = tmp_path / "cache"
    sources = Sources(
        ("hf://org/model", "hf://org/other"),
        "hf://org/adapter",
        f"hostpath://{cache}",
        ({"name": "HF_ENDPOINT", "value": filled_hub.url},),
    )
    async with client_of(cluster.kubeconfig.read_text()) as http:
        models = Models(http, namespace)
        await any_story(
            pieces, gateways, models, state / "node", sources, lambda: kill_api_server(cluster.state)
        )
    cluster.kubectl("delete", "node", "kills")
    # What was downloaded stays, as it was, and nobody is still at it.
    verify = [*HEADGATE, "cache", "verify", "--cache-dir", cache]
    verified = await asyncio.to_thread(subprocess.run, verify, check=False)
    assert verified.returncode == 0
    assert holders_of(cache) == []


def holders_of(directory: Path) -> list[str]:
    """Links of processes to open files below the directory."""
    found = []
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            target = link.readlink()
            if target.is_relative_to(directory):
                found.append(f"{link} {target}")
    return found


def kill_api_server(state: Path) -> None:
    """The tool that runs it starts another one."""
    for pid, command in processes_of(state).items():
        if Path(command.split()[0]).name == "kube-apiserver":
            os.kill(pid, signal.SIGKILL)
