"""Processes that Headgate starts never run a Python file because it lies in the working directory."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

BOOBY_TRAP = "import os, sys; open({sprung!r}, 'a').write(f'{{__name__}} in {{sys.argv}}\\n'); os._exit(77)\n"
HEADGATE = Path(sys.executable).with_name("headgate")


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    """A working directory with files named like modules that every process imports."""
    directory = tmp_path / "cwd"
    (directory / "headgate").mkdir(parents=True)
    code = BOOBY_TRAP.format(sprung=str(tmp_path / "sprung"))
    for name in ("asyncio", "json", "logging", "socket", "click", "uvloop", "msgspec", "ctypes"):
        (directory / f"{name}.py").write_text(code)
    for name in ("__init__", "__main__"):
        (directory / "headgate" / f"{name}.py").write_text(code)
    return directory


@pytest.fixture
def sprung(tmp_path: Path) -> Callable[[], str]:
    """Which of the files were run."""
    file = tmp_path / "sprung"
    return lambda: file.read_text() if file.exists() else ""


def test_headgate_up_with_its_pods(new_machine, trapped, sprung):
    """The API server, the node, the controllers, the gateway and its workers, and the Pods' programs."""
    machine = new_machine()
    machine.start(program=[str(HEADGATE)], cwd=trapped, flags=["--workers", "2"])
    assert machine.ask().status_code == 200
    assert len(machine.get("/debug/config", "admin-port").json()["workers"]) == 2
    assert machine.stop() == 0
    assert sprung() == ""


def test_gateway_workers_and_upgrades(new_machine, trapped, sprung, eventually):
    """A replaced worker, and the next version of the supervisor."""
    machine = new_machine().start()
    kubeconfig = str(machine.state / "kubeconfig")
    flags = ["--port", "0", "--metrics-port", "0", "--admin-port", "0", "--workers", "2"]
    log = trapped.parent / "gateway.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            [str(HEADGATE), "gateway", "--kubeconfig", kubeconfig, *flags],
            cwd=trapped,
            stdout=output,
            stderr=output,
        ) as gateway,
    ):
        try:
            eventually(lambda: "is ready on" in log.read_text() or gateway.poll() is not None)
            assert gateway.poll() is None, log.read_text() + sprung()
            before = children(gateway.pid)
            os.kill(before[0], signal.SIGKILL)
            eventually(lambda: len(now := children(gateway.pid)) == 2 and before[0] not in now)
            gateway.send_signal(signal.SIGUSR2)
            eventually(lambda: not set(children(gateway.pid)) & set(before))
            found = re.findall(r"dashboard on (\S+)/dashboard", log.read_text())
            eventually(lambda: httpx2.get(f"{found[-1]}/readyz", trust_env=False).status_code == 200)
        finally:
            gateway.terminate()
            gateway.wait(180)
    assert sprung() == ""


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_traps_work(trapped, sprung):
    """Without -P, the same directory does run them: the tests above would notice."""
    done = subprocess.run([sys.executable, "-m", "headgate"], cwd=trapped, timeout=180)
    assert done.returncode == 77
    assert sprung()
