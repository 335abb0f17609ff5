"""What a user sees when the manifests, or what they run, are wrong."""

import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"

WRONG = """
apiVersion: networking.volcano.sh/v1alpha1
kind: ModelRoute
metadata: {name: wrong, namespace: default}
spec:
  modelName: m
  rules:
    - targetModels: [{modelServerName: s, weight: 101}]
  rateLimit: {unit: week}
---
apiVersion: networking.volcano.sh/v1alpha1
kind: ModelRout
metadata: {name: mistyped}
"""

CRASHING = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: crashing, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: crashing}}
  template:
    metadata: {labels: {app: crashing}}
    spec: {containers: [{name: engine, command: [no-such-program]}]}
"""


def run(machine, manifests: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    machine.manifests = manifests
    return subprocess.run([*machine.command(), *flags], capture_output=True, text=True, timeout=180)


def test_refused_manifests_are_told_with_every_error_and_their_place(new_machine, tmp_path: Path):
    """Each object is named with file and line, each wrong field has a line, and nothing is left running."""
    file = tmp_path / "wrong.yaml"
    file.write_text(WRONG)
    done = run(new_machine(), file)
    assert done.returncode == 1
    assert "2 of 2 objects were rejected" in done.stderr
    assert f'{file}:2: ModelRoute.networking.volcano.sh "wrong" is invalid:\n' in done.stderr
    assert '\n    spec.rateLimit.unit: Unsupported value: "week": supported values: "second"' in done.stderr
    assert "\n    spec.rules[0].targetModels[0].weight: Invalid value: 101" in done.stderr
    assert f"{file}:11: " in done.stderr
    assert "has no kind ModelRout" in done.stderr
    assert f"To see the line and a fix for each error: headgate validate -f {file}" in done.stderr


def test_what_is_not_ready_in_time_is_explained(new_machine, tmp_path: Path):
    """The Pod and the reason of its container are named; the machine goes on, for the user to mend it."""
    file = tmp_path / "crashing.yaml"
    file.write_text(CRASHING)
    machine = new_machine()
    machine.manifests = file
    process = subprocess.Popen([*machine.command(), "--wait", "1"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if "no-such-program" in line:
            break
    process.terminate()
    process.stdout.read()
    assert process.wait(100) == 0
    process.stdout.close()
    assert "Not ready after " in seen
    assert "Pod default/crashing-" in seen
    assert "command 'no-such-program' is not found" in seen


def test_a_file_of_settings_that_is_wrong_starts_nothing(new_machine, tmp_path: Path):
    """Every error of the gateway's file is told before any process is made."""
    file = tmp_path / "gateway.yaml"
    file.write_text("drain: 5\nworkers: none\n")
    machine = new_machine()
    done = run(machine, QUICKSTART, "--gateway-config", str(file))
    assert done.returncode == 1
    assert "did you mean shutdown.drain_s?" in done.stderr
    assert '"none" is not a whole number from 1 to 256' in done.stderr
    assert not machine.state.exists()


def test_random_ports_are_refused(new_machine):
    """Nothing could find the gateway there."""
    machine = new_machine()
    machine.ports["admin-port"] = 0
    done = run(machine, QUICKSTART)
    assert done.returncode == 1
    assert "`headgate up` cannot use port 0, a random port: choose another with --admin-port, " in done.stderr


@pytest.mark.parametrize("source", ["default", "environment", "file"])
def test_a_taken_port_is_told_with_all_that_moves_it(new_machine, tmp_path: Path, monkeypatch, source):
    """The flag, the variable and the setting, and which of them set it, if any did."""
    machine = new_machine()
    settings = tmp_path / "gateway.yaml"
    words = ["--gateway-config", str(settings)] if source == "file" else []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        if source == "default":
            machine.ports["metrics-port"] = port
        else:
            del machine.ports["metrics-port"]
        settings.write_text(f"metrics:\n  port: {port}\n")
        if source == "environment":
            monkeypatch.setenv("HEADGATE_METRICS_PORT", str(port))
        done = run(machine, QUICKSTART, *words)
    origin = {"default": "", "environment": "HEADGATE_METRICS_PORT", "file": f"{settings}:2"}[source]
    said = f" (set by {origin})" if origin else ""
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: cannot listen on 127.0.0.1:{port} for the gateway's metrics: Address already in use; "
        "choose another port with --metrics-port, HEADGATE_METRICS_PORT or metrics.port in the file of "
        f"--gateway-config{said}\n"
    )


def test_a_port_that_is_taken_during_the_start_ends_it(new_machine):
    """As when a Pod takes it first: no restart of the gateway can help."""
    machine = new_machine()

    def take() -> socket.socket:
        while not (machine.state / "kubeconfig").exists():
            time.sleep(0.01)
        return socket.create_server(("127.0.0.1", machine.ports["metrics-port"]))

    with ThreadPoolExecutor() as threads:
        taken = threads.submit(take)
        done = run(machine, QUICKSTART)
        taken.result(180).close()
    assert done.returncode == 1
    assert (
        f"Error: cannot listen on 127.0.0.1:{machine.ports['metrics-port']} for the metrics page: Address "
        "already in use; choose another port with metrics.port (--metrics-port)\n"
    ) in done.stderr


def test_one_port_for_two_servers_starts_nothing(new_machine):
    """The gateway would end again and again, because the API server has its port."""
    machine = new_machine()
    machine.ports["apiserver-port"] = machine.ports["port"]
    done = run(machine, QUICKSTART)
    assert done.returncode == 1
    assert (
        f"port {machine.ports['port']} for the Kubernetes API is also used for the inference API; "
        "choose another port with --apiserver-port or HEADGATE_APISERVER_PORT\n"
    ) in done.stderr


def test_a_variable_moves_the_port_of_the_api_server(new_machine, monkeypatch):
    """`make up` takes no flags: if the port is taken, the environment is the only way to move it."""
    machine = new_machine()
    machine.ports["port"] = 0  # so that this start ends, too
    del machine.ports["apiserver-port"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("HEADGATE_APISERVER_PORT", str(port))
        done = run(machine, QUICKSTART)
        assert (
            f"cannot listen on 127.0.0.1:{port} for the Kubernetes API: Address already in use; "
            "choose another port with --apiserver-port or HEADGATE_APISERVER_PORT\n"
        ) in done.stderr
