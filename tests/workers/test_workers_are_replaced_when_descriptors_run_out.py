"""Whoever fills the supervisor's own ports does not keep it from replacing a worker."""

import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def limit_to(pid: int, count: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, count))


def crowd(url: str, count: int, clients: contextlib.ExitStack) -> None:
    """Opens connections that ask for a page and keep the connection."""
    found = re.match(r"http://([\d.]+):(\d+)", url)
    assert found
    for _ in range(count):
        client = clients.enter_context(socket.create_connection((found[1], int(found[2])), timeout=60))
        with contextlib.suppress(OSError):
            client.sendall(b"GET /healthz HTTP/1.1\r\nhost: g\r\n\r\n")


def test_a_limit_that_is_too_low_to_start_is_told(tmp_path):
    """In one line with the remedy, without tracebacks of the processes that could not start."""
    words = [sys.executable, "-m", "headgate", "gateway", "--workers", "2", "--port", "0"]
    done = subprocess.run(
        [*words, "--metrics-port", "0", "--admin-port", "0"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if "WARNING" not in line]
    told = "Error: too many open files, the limit is 20: raise it (ulimit -n, LimitNOFILE=)"
    assert errors == [told]


async def test_workers_are_replaced_while_the_own_ports_are_full(start_gateway, eventually):
    """Connections take every descriptor of the supervisor; killed workers are replaced all the same."""
    gateway = await start_gateway("--workers", "2")
    supervisor = gateway.process.pid
    with contextlib.ExitStack() as clients:
        limit_to(supervisor, open_files(supervisor) + 30)
        for url in (gateway.admin_url, gateway.metrics_url):
            crowd(url, 100, clients)
        for _ in range(6):
            killed = children(supervisor)[0]
            os.kill(killed, signal.SIGKILL)
            await eventually(lambda gone=killed: gone not in (now := children(supervisor)) and len(now) == 2)
            crowd(gateway.admin_url, 20, clients)
        assert gateway.process.poll() is None
        assert gateway.said().count("out of system resource") < 50
    await eventually(lambda: len(gateway.workers()) == 2)
    assert gateway.metric("headgate_gateway_worker_restarts_total") > 0


async def test_the_page_answers_again_once_the_crowd_has_left(start_gateway, eventually):
    """A full port costs those who connect meanwhile, and little CPU; later ones are served."""
    gateway = await start_gateway()
    supervisor = gateway.process.pid
    with contextlib.ExitStack() as clients:
        limit_to(supervisor, open_files(supervisor) + 20)
        crowd(gateway.admin_url, 200, clients)
        before, began = cpu_s(supervisor), time.monotonic()
        await eventually(lambda: time.monotonic() - began > 2)
        assert cpu_s(supervisor) - before < 1
        assert len(gateway.said()) < 100_000
    await eventually(lambda: answers(gateway))


def answers(gateway) -> bool:
    """Whether the page is served; connections may be turned away until the crowd's have ended."""
    try:
        return gateway.get("/readyz").status_code == 200
    except httpx2.TransportError:
        return False


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
