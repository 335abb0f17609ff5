"""Processes: started as told, ended with everything that they started, and never outliving the node."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headgate.node import log_files, processes, records


@pytest.fixture
def runner(tmp_path: Path) -> processes.ProcessRunner:
    return processes.ProcessRunner(tmp_path / "processes")


def writer(tmp_path: Path) -> log_files.LogWriter:
    return log_files.LogDirectory(tmp_path / "logs").open_run(tmp_path / "logs" / "c", 0)


def output(tmp_path: Path) -> str:
    lines = (tmp_path / "logs" / "c" / "0.log").read_text().splitlines()
    return "\n".join(line.partition(" ")[2] for line in lines)


async def start(runner, tmp_path, *command: str, **environment: str) -> processes.Process:
    program = processes.Program(command, {"PATH": os.environ["PATH"], **environment})
    return await runner.start(program, writer(tmp_path), "ns/pod/c")


async def until(holds, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    return records.start_time(pid) is not None


async def test_output_environment_and_exit_code_come_through(runner, tmp_path):
    """Both streams land in the log in order, the last words included, and the exit code is the program's."""
    script = 'echo "$GREETING"; echo problem >&2; printf unfinished; exit 7'
    process = await start(runner, tmp_path, "sh", "-c", script, GREETING="hello")
    assert await process.wait() == processes.Exit(7)
    assert output(tmp_path) == "hello\nproblem\nunfinished"
    assert runner.statistics() == processes.ProcessStatistics(running=0, started_total=1)


async def test_programs_that_end_at_once(runner, tmp_path):
    """A program may have ended before the node has read that it was started."""
    for code in range(20):
        process = await start(runner, tmp_path, "sh", "-c", f"exit {code}")
        assert await process.wait() == processes.Exit(code)


async def test_python_and_headgate_are_those_of_the_node(runner, tmp_path):
    """`python3` in a Pod is the interpreter that runs the node, whatever PATH says."""
    process = await start(runner, tmp_path, "python3", "-c", "import sys; print(sys.prefix)")
    await process.wait()
    assert output(tmp_path) == sys.prefix


async def test_children_end_with_their_parent(runner, tmp_path):
    """When the program ends, what it left running in its group ends too."""
    process = await start(runner, tmp_path, "sh", "-c", "sleep 60 & echo $!")
    await process.wait()
    child = int(output(tmp_path))
    await until(lambda: not alive(child))


async def test_a_signal_reaches_the_whole_group(runner, tmp_path):
    """A shell that doesn't pass signals on can't keep its child from being told."""
    process = await start(runner, tmp_path, "sh", "-c", "sleep 60; exit 0")
    process.send(signal.SIGTERM)
    assert await process.wait() == processes.Exit(128 + signal.SIGTERM, signal.SIGTERM)


@pytest.mark.parametrize("command", ["no-such-program", "./no-such-file"])
async def test_a_program_that_is_not_there_is_named(runner, tmp_path, command):
    """The error says what was looked for, and the container's log says so too."""
    with pytest.raises(processes.StartError, match=command):
        await start(runner, tmp_path, command)
    assert command in output(tmp_path)


NODE = """
import asyncio, sys
from pathlib import Path
from headgate.node import log_files, processes

async def main(root):
    runner = processes.ProcessRunner(root / "processes")
    writer = log_files.LogDirectory(root).open_run(root / "logs", 0)
    command = ["sh", "-c", "sleep 60 & echo $!; wait"]
    program = processes.Program(command, {"PATH": "/usr/bin:/bin"})
    process = await runner.start(program, writer, "ns/pod/c")
    print(process.pid, flush=True)
    await process.wait()

asyncio.run(main(Path(sys.argv[1])))
"""


async def test_a_killed_node_leaves_nothing(tmp_path):
    """kill -9 of a node ends its programs, with all that they had started; the next node finds nothing."""
    node = await asyncio.create_subprocess_exec(
        sys.executable, "-c", NODE, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    program = int(await node.stdout.readline())
    log = tmp_path / "logs" / "0.log"
    await until(lambda: log.exists() and log.read_text().endswith("\n"))
    child = int(log.read_text().split()[1])
    node.kill()
    await node.wait()
    await until(lambda: not alive(program) and not alive(child))
    assert processes.ProcessRunner(tmp_path / "processes").end_leftovers() == []


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        if sys.argv[1] == "nameless":
            os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"], {})
        time.sleep(600)
    os._exit(0)
print("started", flush=True)
time.sleep(600)
"""
"""Starts a daemon with a session of its own; a "nameless" one carries nothing of its environment."""


async def daemonized(runner, tmp_path, kind: str) -> tuple[processes.Process, int]:
    """A program that has started a daemon, and the process id of that."""
    process = await start(runner, tmp_path, "python3", "-c", DAEMON, kind)
    await until(lambda: "started" in output(tmp_path) and len(family(process)) == 2)
    (daemon,) = set(family(process)) - {process.pid}
    assert os.getsid(daemon) != os.getsid(process.pid)
    return process, daemon


def family(process: processes.Process) -> list[int]:
    """The children of the launcher: the program, and daemons."""
    launcher = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return [int(pid) for pid in children if alive(int(pid))]


@pytest.mark.parametrize("kind", ["plain", "nameless"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_daemons_end_with_the_program(runner, tmp_path, kind, number):
    """A second fork and a session of its own do not get a process out of its container."""
    process, daemon = await daemonized(runner, tmp_path, kind)
    process.send(number)
    assert await process.wait() == processes.Exit(128 + number, number)
    assert not alive(daemon)


async def test_daemons_end_with_a_killed_launcher(runner, tmp_path):
    """Who kills the launcher itself ends the program; the node finds the daemons by their environment."""
    process, daemon = await daemonized(runner, tmp_path, "plain")
    os.kill(process._launcher.pid, signal.SIGKILL)
    assert await process.wait() == processes.Exit(137, signal.SIGKILL)
    assert not alive(process.pid)
    assert not alive(daemon)


async def test_a_stopped_launcher_still_ends_its_program(runner, tmp_path):
    """A program can stop its launcher, but not keep the node from ending both."""
    process, daemon = await daemonized(runner, tmp_path, "nameless")
    os.kill(process._launcher.pid, signal.SIGSTOP)
    process.send(signal.SIGKILL)
    assert await process.wait() == processes.Exit(137, signal.SIGKILL)
    assert not alive(daemon)


@pytest.mark.parametrize("times", [1, 3])
async def test_a_cancelled_wait_ends_everything(runner, tmp_path, times):
    """A node that is stopped at once leaves no daemon, however often it is told."""
    process, daemon = await daemonized(runner, tmp_path, "nameless")
    waiting = asyncio.ensure_future(process.wait())
    for _ in range(times):
        await asyncio.sleep(0)
        waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not alive(process.pid)
    assert not alive(daemon)


async def test_a_fork_storm_ends(runner, tmp_path):
    """Processes that start others again and again are all found."""
    forks = "setsid sh -c 'while :; do sleep 0.05; done'"
    storm = f"i=0; while [ $i -lt 40 ]; do {forks} & i=$((i+1)); done; echo started; wait"
    process = await start(runner, tmp_path, "sh", "-c", storm)
    await until(lambda: "started" in output(tmp_path))
    token = process._token
    process.send(signal.SIGTERM)
    await process.wait()
    marker = f"{records.TOKEN}={token}".encode()
    assert not [pid for pid in records._processes() if marker in records._environment(pid) and alive(pid)]


async def test_leftovers_are_found_when_node_and_launchers_were_killed(runner, tmp_path):
    """The next node ends daemons that have left the recorded process group."""
    process, daemon = await daemonized(runner, tmp_path, "plain")
    record = next((tmp_path / "processes").glob("*.json"))
    kept = record.read_bytes()
    os.kill(process._launcher.pid, signal.SIGSTOP)
    os.kill(process.pid, signal.SIGKILL)
    record.write_bytes(kept)
    processes.ProcessRunner(tmp_path / "processes").end_leftovers()
    await until(lambda: not alive(daemon))
    assert await process.wait() == processes.Exit(137, signal.SIGKILL)


def test_a_reused_pid_is_not_ended(tmp_path):
    """A record whose pid now belongs to another program ends nobody, and is forgotten."""
    kept = records.Records(tmp_path)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        kept.add(stranger.pid, "token", "ns/pod/c")
        path = tmp_path / f"{stranger.pid}.json"
        path.write_text(path.read_text().replace(records.start_time(stranger.pid), "1"))
        assert kept.end_leftovers() == []
        assert stranger.poll() is None
        assert not path.exists()
        stranger.kill()


def test_a_broken_record_is_dropped(tmp_path):
    """Half a record is worth a warning, not a node that doesn't start."""
    kept = records.Records(tmp_path)
    (tmp_path / "1.json").write_text('{"pid": 1')
    assert kept.end_leftovers() == []
    assert list(tmp_path.iterdir()) == []


async def test_last_words_are_in_the_log_when_the_end_is_known(tmp_path):
    """Also where the pipe has ended and the loop has not said so yet: an unfinished line waits for that."""
    pipe = await processes._Output.open(writer(tmp_path))
    pipe.connection_lost = lambda error: None
    os.write(pipe.stdout, b"unfinished")
    pipe.given()
    await until(lambda: pipe._transport.is_closing())
    pipe.close()
    assert output(tmp_path) == "unfinished"
