"""Objects stay, whatever ends the processes; a second start comes up with them as they were."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole


def descendants(pid: int) -> list[int]:
    """The process and all below it, as the process table has them now."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [], [pid]
    while queue:
        each = queue.pop()
        found.append(each)
        queue += parents.get(each, [])
    return found


def alive(pids: list[int]) -> list[int]:
    def state(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return "gone"

    return [pid for pid in pids if state(pid) not in ("gone", "Z")]


@pytest.fixture
def up(mortal):
    """The same, and it is up."""
    return mortal if mortal.process is not None else mortal.start()


def killed(machine) -> None:
    """Once its supervisor is."""
    machine.process.wait()
    machine.process.stdout.close()
    machine.process = None


def test_ctrl_c_stops_everything_and_the_second_start_has_the_same_objects(up):
    """Exit code 0, no process left; what the user scaled in between is still so after the next start."""
    machine = up
    machine.kubectl("scale", "deployment", "sim-8b", "--replicas=1")
    pids = descendants(machine.process.pid)
    assert len(pids) >= 6  # supervisor, API server, node, controllers, gateway, an engine
    assert machine.stop(signal.SIGINT) == 0
    assert alive(pids) == []
    machine.start()
    assert "0 applied, 3 kept as you left them" in machine.output
    assert len(machine.endpoints()) == 1
    assert machine.ask().status_code == 200


def test_kill_9_of_everything_loses_no_acknowledged_object(up, eventually):
    """After SIGKILL of all processes at once, a start has every object that kubectl was told of."""
    machine = up
    names = [f"kept-{number}" for number in range(5)]
    for name in names:
        machine.kubectl(
            "apply", "-f", "-", text=f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"
        )
    pids = descendants(machine.process.pid)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # some end as soon as those before them have
            os.kill(pid, signal.SIGKILL)
    killed(machine)
    eventually(lambda: not alive(pids))
    machine.start()
    listed = machine.kubectl("get", "configmaps", "-o", "name").split()
    assert {f"configmap/{name}" for name in names} <= set(listed)
    assert machine.ask().status_code == 200


def test_a_supervisor_killed_alone_takes_its_processes_along(up, eventually):
    """No orphan keeps a port or a GPU after the supervisor has been killed."""
    machine = up
    pids = descendants(machine.process.pid)
    os.kill(machine.process.pid, signal.SIGKILL)
    killed(machine)
    eventually(lambda: not alive(pids))


PURPOSES = {
    "port": "the inference API",
    "apiserver-port": "the Kubernetes API",
    "metrics-port": "the gateway's metrics",
    "admin-port": "the gateway's admin page",
}


def test_a_port_that_is_taken_is_named_with_the_option_that_changes_it(machine, new_machine):
    """Nothing is started, and all taken ports are told at once."""
    second = new_machine()
    second.ports = dict(machine.ports)
    done = subprocess.run(second.command(), capture_output=True, text=True, timeout=180)
    assert done.returncode == 1
    for option, port in machine.ports.items():
        assert (
            f"cannot listen on 127.0.0.1:{port} for {PURPOSES[option]}: Address already in use; "
            f"choose another port with --{option}" in done.stderr
        )


def test_a_second_start_in_the_same_state_is_refused(machine):
    """Two supervisors never share a state directory."""
    done = subprocess.run(machine.command(), capture_output=True, text=True, timeout=180)
    assert done.returncode == 1
    assert f"another `headgate up` is running in {machine.state}" in done.stderr
