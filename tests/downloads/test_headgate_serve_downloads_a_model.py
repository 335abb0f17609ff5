"""`headgate serve hf://...` downloads from the hub into the cache, starts the engine, and asks it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "examples" / "images" / "simulated.yaml"
HEADGATE = (sys.executable, "-m", "headgate", "serve")

pytestmark = pytest.mark.whole


@pytest.fixture
def environment(tmp_path, unused_tcp_port_factory):
    """A machine that nobody else uses, with a home and ports of its own."""
    names = (
        "HEADGATE_APISERVER_PORT",
        "HEADGATE_LISTEN_PORT",
        "HEADGATE_METRICS_PORT",
        "HEADGATE_ADMIN_PORT",
    )
    own = {name: str(unused_tcp_port_factory()) for name in names}
    own |= {"HOME": str(tmp_path), "HEADGATE_STATE": str(tmp_path / "state")}
    left_out = ("KUBECONFIG", "XDG_CACHE_HOME", "HF_ENDPOINT")
    return {name: value for name, value in os.environ.items() if name not in left_out} | own


def test_a_repository_is_served(hub, repository, environment, tmp_path):
    """The progress is on standard error, the result on standard output; a second start downloads nothing."""
    [name] = hub.repositories
    words = ["--name", "served", "--env", f"HF_ENDPOINT={hub.url}", "--images", str(IMAGES), "-o", "json"]
    command = [*HEADGATE, f"hf://{name}", *words]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line == "}\n":
                break
        url = f"http://127.0.0.1:{environment['HEADGATE_LISTEN_PORT']}"
        told = {"name": "served", "namespace": "default", "url": url, "ready": True}
        assert json.loads("".join(lines)) == told
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "weights: on the machine" in errors
    [weights] = (tmp_path / ".cache" / "headgate" / "models").glob("*/config.json")
    assert weights.read_bytes() == repository.files["config.json"]
