"""Ctrl-C ends a command, whenever it comes and whichever thread the system gives it to."""

import random
import signal
import socket
import subprocess
import sys
import time

import pytest

ENDED = (130, -signal.SIGINT)
"""Ended by the command, or, before it had begun, by the system. To a shell both are 130."""
MISSED_S = 10.0
LATE_S = 30.0
"""Only tells from for ever: a watch that missed the signal goes on until the server says something."""

WAITS = """
import asyncio, ctypes, os, signal, socket, sys, threading
from headgate.cli import main, process

def signal_another_thread():
    # As the system may: the main thread waits on, unless something wakes it.
    started.wait()
    threading.Event().wait(0.3)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    threading.Event().wait()

async def waits():
    started.set()
    if sys.argv[1] == "lookup":
        await asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
    while True:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            if sys.argv[1] != "stubborn":
                raise

started = threading.Event()
threading.Thread(target=signal_another_thread, daemon=True).start()
try:
    process.run_once(waits)
except KeyboardInterrupt:
    sys.exit(process.INTERRUPTED)
"""


@pytest.mark.parametrize("what", ["watch", "stubborn", "lookup"])
def test_a_signal_that_another_thread_gets(what):
    """Nothing wakes the loop but the signal; what cannot be cancelled does not hold up the end."""
    done = subprocess.run([sys.executable, "-c", WAITS, what], timeout=LATE_S, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")


def test_a_signal_at_any_moment(headgate, route):
    """From the first import to the wait for changes, one SIGINT is enough, and nothing goes on."""
    headgate("apply", "-f", "-", stdin=route("a"))
    command = [sys.executable, "-m", "headgate", "get", "mr", "-w", "-o", "name"]
    options = ["--kubeconfig", str(headgate.kubeconfig), "-n", headgate.namespace]
    rng = random.Random(1)
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as first:
        began = time.monotonic()
        first.stdout.readline()
        start_s = time.monotonic() - began
        first.send_signal(signal.SIGINT)
        assert first.wait(LATE_S) == 130
    for _ in range(25):
        with subprocess.Popen(
            [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            wait_for_headgate(process.pid)
            time.sleep(rng.uniform(0.05, 1.5) * start_s)
            process.send_signal(signal.SIGINT)
            try:
                _, errors = process.communicate(timeout=LATE_S)
            finally:
                process.kill()
        assert process.returncode in ENDED, errors


def wait_for_headgate(pid: int) -> None:
    """Until the interpreter, which handles SIGINT and may lose it in a callback of its own, has started.

    If the moment when Headgate takes the handler away was missed, the command has long begun.
    """
    end = time.monotonic() + MISSED_S
    while not handles_interrupts(pid) and time.monotonic() < end:
        time.sleep(0.001)
    while handles_interrupts(pid) and time.monotonic() < end:
        time.sleep(0.001)


def handles_interrupts(pid: int) -> bool:
    with open(f"/proc/{pid}/status") as file:
        [caught] = (line.split()[1] for line in file if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (signal.SIGINT - 1) & 1)


def test_a_command_ends_although_the_server_does_not_answer(tmp_path):
    """A server that takes the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG % server.getsockname()[1])
        command = [sys.executable, "-m", "headgate", "get", "pods", "--kubeconfig", str(kubeconfig)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process, server.accept()[0]:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=LATE_S)
    assert (process.returncode, errors) == (130, "")


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "http://127.0.0.1:%d"}}]
users: [{name: a, user: {}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
"""
