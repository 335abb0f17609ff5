"""Daemons of a Pod end with the Pod, and with a Headgate that is killed."""

import json
import os
import signal
from pathlib import Path

import pytest

DAEMON = """env -i setsid sh -c 'echo $$$$ > "$0"; exec sleep 600' "$0" <&- >&- 2>&-"""
"""It has a session of its own, no variable of the Pod, and no file of the Pod open."""

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "forks", "namespace": "default"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "main",
                "command": ["sh", "-c", f"({DAEMON} &); exec sleep 600"],
                "args": [],
            }
        ],
    },
}


@pytest.fixture
def forking(new_machine, tmp_path, eventually):
    """A machine with a Pod that has started a daemon, and the daemon's process id."""
    note = tmp_path / "daemon"
    pod = json.loads(json.dumps(POD))
    pod["spec"]["containers"][0]["args"] = [str(note)]
    manifests = tmp_path / "pod.json"
    manifests.write_text(json.dumps(pod))
    machine = new_machine(manifests)
    machine.start()
    eventually(lambda: note.exists() and note.read_text().strip())
    return machine, int(note.read_text())


def is_running(pid: int) -> bool:
    try:
        return "Z (zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_a_deleted_pod_leaves_nothing(forking, eventually):
    """The daemon is gone when the Pod is."""
    machine, daemon = forking
    assert is_running(daemon)
    machine.kubectl("delete", "pod", "forks", "--wait=true")
    assert not is_running(daemon)


@pytest.mark.parametrize("killed", ["node", "up"])
def test_a_killed_headgate_leaves_nothing(forking, eventually, killed):
    """kill -9 of the node, or of all of `headgate up`, ends the daemon as well."""
    machine, daemon = forking
    assert is_running(daemon)
    up = machine.process.pid
    children = Path(f"/proc/{up}/task/{up}/children").read_text().split()
    node = next(int(pid) for pid in children if b"\0node\0" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(node if killed == "node" else up, signal.SIGKILL)
    eventually(lambda: not is_running(daemon))
    if killed == "up":
        eventually(lambda: not any(is_running(int(pid)) for pid in children))
        machine.process.wait(180)
        machine.process.stdout.close()
        machine.process = None
