"""Whatever becomes of standard output and standard error, the gateway serves; lines are dropped, counted."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

REQUESTS = 300
PAGE = 4096


@pytest.fixture
def outputs() -> Iterator[dict[str, Callable[[], int]]]:
    """Descriptors that cannot be written, for long."""
    with contextlib.ExitStack() as opened:

        def pipe(*, read: bool, blocking: bool) -> int:
            reading, writing = os.pipe()
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PAGE)
            os.set_blocking(writing, blocking)
            opened.callback(os.close, writing)
            if read:  # it stays open, and nobody reads
                opened.callback(os.close, reading)
            else:
                os.close(reading)
            return writing

        def full() -> int:
            descriptor = os.open("/dev/full", os.O_WRONLY)
            opened.callback(os.close, descriptor)
            return descriptor

        yield {
            "its reader has gone": lambda: pipe(read=False, blocking=True),
            "its reader has stopped": lambda: pipe(read=True, blocking=True),
            "its reader has stopped, and it does not block": lambda: pipe(read=True, blocking=False),
            "the disk is full": full,
        }


OUTPUTS = (
    "its reader has gone",
    "its reader has stopped",
    "its reader has stopped, and it does not block",
    "the disk is full",
)


class Started:
    """A gateway whose log nobody sees, by its ports."""

    def __init__(self, process: subprocess.Popen[bytes], ports: list[int]) -> None:
        self.process = process
        self.port, self.metrics_port, self.admin_port = ports

    def get(self, port: int, path: str) -> httpx2.Response:
        return httpx2.get(f"http://127.0.0.1:{port}{path}", trust_env=False, timeout=60)

    def is_ready(self) -> bool:
        assert self.process.poll() is None
        with contextlib.suppress(httpx2.HTTPError):
            return self.get(self.admin_port, "/readyz").status_code == 200
        return False

    def dropped(self, metric: str) -> float:
        page = self.get(self.metrics_port, "/metrics").text
        return sum(
            sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.name == metric and sample.labels["result"] == "dropped"
        )

    def says_something(self) -> bool:
        """Makes the supervisor log lines: a few hundred wait for a reader before any is dropped."""
        for _ in range(50):
            self.process.send_signal(signal.SIGHUP)
            time.sleep(0.002)
        return True

    def ask(self, client: httpx2.Client) -> int:
        body = {"model": "m", "prompt": "x"}
        url = f"http://127.0.0.1:{self.port}/v1/completions"
        return client.post(url, content=json.dumps(body)).status_code

    def children(self) -> list[int]:
        pid = self.process.pid
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def started(kubeconfig: Path, unused_tcp_port_factory: Callable[[], int]) -> Iterator[Callable[..., Started]]:
    running: list[Started] = []

    def start(stdout: int, stderr: int, *before: str) -> Started:
        ports = [unused_tcp_port_factory() for _ in range(3)]
        names = ("--port", "--metrics-port", "--admin-port")
        flags = [word for name, port in zip(names, ports, strict=True) for word in (name, str(port))]
        command = [*before, sys.executable, "-m", "headgate", "gateway", "--kubeconfig", str(kubeconfig)]
        process = subprocess.Popen(
            [*command, *flags, "--log-level", "debug", "--access-log", "json", "--workers", "2"],
            stdout=stdout,
            stderr=stderr,
        )
        running.append(Started(process, ports))
        return running[-1]

    yield start
    for gateway in running:
        if gateway.process.poll() is None:
            gateway.process.kill()
        gateway.process.wait(60)


async def serves_and_ends(gateway: Started, eventually: Callable[..., object]) -> None:
    """Requests are served, a killed worker is replaced, and the end is in good order."""
    await eventually(gateway.is_ready)
    with httpx2.Client(trust_env=False, timeout=60) as client:
        assert {gateway.ask(client) for _ in range(REQUESTS)} == {200}
    killed = gateway.children()[0]
    os.kill(killed, signal.SIGKILL)
    await eventually(lambda: killed not in (now := gateway.children()) and len(now) == 2)
    await eventually(gateway.is_ready)
    with httpx2.Client(trust_env=False, timeout=60) as client:
        assert gateway.ask(client) == 200


@pytest.mark.parametrize("what", OUTPUTS)
async def test_both_logs_cannot_be_written(started, outputs, eventually, what):
    """Lines of the log and of the access log are dropped, and metrics say how many."""
    gateway = started(outputs[what](), outputs[what]())
    await serves_and_ends(gateway, eventually)
    await eventually(lambda: gateway.says_something() and gateway.dropped("headgate_log_lines_total") > 0)
    if "stopped" not in what:  # otherwise some wait for a reader, until there are too many
        await eventually(lambda: gateway.dropped("headgate_gateway_access_log_lines_total") > 0)
    gateway.process.terminate()
    assert gateway.process.wait(60) == 0


async def test_an_access_log_that_cannot_be_written(started, outputs, eventually, tmp_path):
    """The log has no traceback of it."""
    with (tmp_path / "stderr").open("wb") as stderr:
        gateway = started(outputs["the disk is full"](), stderr.fileno())
        await serves_and_ends(gateway, eventually)
        gateway.process.terminate()
        assert gateway.process.wait(60) == 0
    assert "Traceback" not in (tmp_path / "stderr").read_text()


async def test_both_are_closed(started, eventually):
    """Sockets do not get their numbers: no log line goes to a client."""
    gateway = started(subprocess.DEVNULL, subprocess.DEVNULL, "sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")
    await serves_and_ends(gateway, eventually)
    found = {os.readlink(f"/proc/{gateway.process.pid}/fd/{number}") for number in range(3)}
    assert found == {"/dev/null"}
    gateway.process.terminate()
    assert gateway.process.wait(60) == 0
