"""A bad day for an engine is not a bad day for its clients."""

import json
import os
import signal
import threading
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole


def engine_pids() -> dict[str, int]:
    """Process ids of the simulated engines on this machine by the address that they listen on."""
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                words = Path(f"/proc/{entry.name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            hosts = [word.removeprefix(b"--host=") for word in words if word.startswith(b"--host=127.")]
            if b"simulate" in words and hosts:
                found[hosts[0].decode()] = int(entry.name)
    return found


def test_an_engine_killed_leaves_rotation_and_a_new_one_comes(machine, eventually):
    """SIGKILL takes an engine out of rotation; no request that had not begun on it fails."""
    pods = json.loads(machine.kubectl("get", "pods", "-l", "app=sim-8b", "-o", "json"))["items"]
    victim = pods[0]
    address, name = victim["status"]["podIP"], victim["metadata"]["name"]
    statuses: list[int] = []
    stop = threading.Event()

    def ask_on() -> None:
        while not stop.is_set():
            statuses.append(machine.ask(tokens=1).status_code)

    askers = [threading.Thread(target=ask_on) for _ in range(4)]
    for asker in askers:
        asker.start()
    eventually(lambda: len(statuses) > 10)
    os.kill(engine_pids()[address], signal.SIGKILL)
    eventually(lambda: f"default/{name}" not in machine.endpoints())
    eventually(lambda: len(machine.endpoints()) == 2)
    answered = len(statuses)
    eventually(lambda: len(statuses) > answered + 10)
    stop.set()
    for asker in askers:
        asker.join()
    assert set(statuses) == {200}
    restarts = json.loads(machine.kubectl("get", "pod", name, "-o", "json"))["status"]["containerStatuses"][0]
    assert restarts["restartCount"] == 1
