"""`headgate serve` makes a Model in a cluster, follows it, and ends once it answers."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from loopback_hub import Repository
from world_of_models import Site

HEADGATE = [sys.executable, "-m", "headgate"]


def serve(site: Site, namespace: str, *words: str) -> subprocess.CompletedProcess[str]:
    where = ("--kubeconfig", site.kubeconfig, "-n", namespace, "--gateway", site.gateway)
    command = [*HEADGATE, "serve", "hf://org/model", *where, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(autouse=True)
def _weights(site: Site) -> None:
    files = {"config.json": b"{}", "model.safetensors": bytes(1 << 20)}
    site.hub.repositories = {"org/model": Repository(files)}


def test_a_model_is_served(cluster: Any, site: Site, namespace: str) -> None:
    """With a flag of the engine; the printed request works, and another run changes the Model."""
    hub = ("--env", f"HF_ENDPOINT={site.hub.url}", "--name", f"{namespace}-chat")
    served = serve(site, namespace, *hub, "--", "--max-model-len", "4096")
    assert served.returncode == 0, served.stdout + served.stderr
    curl = served.stdout[served.stdout.index("curl ") :]
    answer = subprocess.run(["bash", "-c", curl], capture_output=True, text=True, timeout=60, check=False)
    assert "data: [DONE]" in answer.stdout, answer.stdout + answer.stderr
    model = json.loads(cluster.kubectl("get", "model", f"{namespace}-chat", "-n", namespace, "-o", "json"))
    [backend] = model["spec"]["backends"]
    assert backend["workers"][0]["config"] == {"max-model-len": 4096}

    again = serve(site, namespace, *hub, "--replicas", "2", "-o", "json", "--", "--max-model-len", "4096")
    assert again.returncode == 0, again.stdout + again.stderr
    pods = json.loads(cluster.kubectl("get", "pods", "-n", namespace, "-o", "json"))
    assert len(pods["items"]) == 2


def test_a_model_that_fails_says_why(site: Site, namespace: str) -> None:
    """With exit code 1, as the hub has no such repository."""
    nowhere = ("--env", f"HF_ENDPOINT={site.hub.url}", "--adapter", "sql=hf://org/nowhere")
    failed = serve(site, namespace, *nowhere, "--name", "broken", "--timeout", "200")
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert "org/nowhere" in failed.stdout + failed.stderr
