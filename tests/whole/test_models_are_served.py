"""Models from a manifest or a command line, up to the answer of a simulated engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
IMAGES = EXAMPLES / "images" / "simulated.yaml"
HEADGATE = (sys.executable, "-m", "headgate")
LIMIT_S = 180.0

pytestmark = pytest.mark.whole


def run(machine, *words, **options):
    """A command of a user, with the state directory of the machine."""
    command = [*HEADGATE, words[0], "--state", str(machine.state), *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, **options)


def asked(machine, model):
    """The model that answers, as the engine reports it; "" if none does."""
    answer = machine.ask(model)
    return answer.json()["model"] if answer.status_code == 200 else ""


def test_an_example_answers_at_once(models):
    """`headgate up` says that it is up when the Model's engine can be asked."""
    assert asked(models, "tiny") == "tiny"
    assert "tiny" in [each["id"] for each in models.get("/v1/models").json()["data"]]


@pytest.mark.parametrize(
    ("example", "names"),
    [
        ("two-backends", ["split"]),
        ("adapters", ["base", "sql", "poetry"]),
        ("disaggregated", ["disaggregated"]),
    ],
)
def test_further_examples_answer_on_a_machine_that_runs(models, eventually, example, names):
    """Applied beside the others, and deleted again with all that was made for them."""
    file = str(EXAMPLES / "models" / f"{example}.yaml")
    assert run(models, "apply", "-f", file).returncode == 0
    for name in names:
        eventually(lambda name=name: asked(models, name) == name, LIMIT_S)
    assert run(models, "delete", "-f", file, "--timeout", "100").returncode == 0
    eventually(lambda: asked(models, names[0]) == "", LIMIT_S)


def test_a_directory_is_served_by_one_command(models, tmp_path, eventually):
    """It is applied, followed and asked; the next call changes it, and says so."""
    (tmp_path / "my-weights").mkdir()
    (tmp_path / "my-weights" / "config.json").write_text("{}")
    done = run(models, "serve", "./my-weights", "-o", "json", "--", "--max-model-len", "4096", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "name": "my-weights",
        "namespace": "default",
        "url": models.url,
        "ready": True,
    }
    assert "model: model.registry.volcano.sh/my-weights created" in done.stderr
    assert asked(models, "my-weights") == "my-weights"
    again = run(models, "serve", "./my-weights", "--adapter", "extra=./my-weights", "--no-wait", cwd=tmp_path)
    assert "model: model.registry.volcano.sh/my-weights configured" in again.stdout
    assert "Follow it with: headgate get model my-weights --watch" in again.stdout
    eventually(lambda: asked(models, "extra") == "extra", LIMIT_S)
    assert run(models, "delete", "model", "my-weights").returncode == 0


def test_ctrl_c_leaves_the_model_and_says_so(models, tmp_path, eventually):
    """An engine that never starts is followed until the user has seen enough."""
    command = [*HEADGATE, "serve", "pvc://nothing", "--name", "stuck", "--image", "unknown:1"]
    process = subprocess.Popen(
        [*command, "--state", str(models.state)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("engine: "):
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 130
    assert errors == "Interrupted; the Model stays: `headgate delete model stuck` removes it.\n"
    assert run(models, "delete", "model", "stuck").returncode == 0


def test_an_engine_that_fails_ends_the_command(models):
    """With what the engine did, once it failed again and again."""
    done = run(models, "serve", "pvc://nothing", "--name", "broken", "--image", "unknown:1")
    assert done.returncode == 1
    assert (
        "Error: Model default/broken failed: Model not ready yet: backend vllm: 0 of 1 replicas"
        in done.stderr
    )
    assert "container engine: " in done.stderr
    assert "the Model stays: `headgate delete model broken` removes it" in done.stderr
    assert run(models, "delete", "model", "broken").returncode == 0


def test_a_model_that_the_server_rejects_is_not_waited_for(models):
    """One line says why, and the exit code is 1."""
    done = run(models, "serve", "hf://o/m", "-n", "nowhere")
    assert (done.returncode, done.stderr) == (
        1,
        '<headgate serve>:1:1: error: Model nowhere/m: namespaces "nowhere" not found\n',
    )
    late = run(models, "serve", "pvc://x", "--images", str(IMAGES))
    assert "--images has no effect on a machine that runs: give it to `headgate up`" in late.stderr


def test_a_machine_is_started_if_none_runs(ports, tmp_path):
    """It serves until Ctrl-C, and keeps the Model."""
    given = ports()
    environment = os.environ | {
        "HEADGATE_STATE": str(tmp_path / "state"),
        "HEADGATE_APISERVER_PORT": str(given["apiserver-port"]),
        "HEADGATE_LISTEN_PORT": str(given["port"]),
        "HEADGATE_METRICS_PORT": str(given["metrics-port"]),
        "HEADGATE_ADMIN_PORT": str(given["admin-port"]),
    }
    environment.pop("KUBECONFIG", None)
    command = [*HEADGATE, "serve", str(EXAMPLES / "weights" / "tiny"), "--images", str(IMAGES)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("Ctrl-C stops the machine"):
                break
        url = f"http://127.0.0.1:{given['port']}"
        assert f"  curl -N {url}/v1/chat/completions" in "".join(lines)
        answer = httpx2.post(
            f"{url}/v1/completions", json={"model": "tiny", "prompt": "Hi", "max_tokens": 1}, trust_env=False
        )
        assert answer.status_code == 200
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
    assert "No machine runs in" in errors
    assert "Model default/tiny is kept: `headgate up` runs it again." in errors
