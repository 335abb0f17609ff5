"""Runs the program of a container, and ends everything that it started, even if the node dies.

Run as a separate script, `python -I -S launcher.py PROGRAM ARGUMENTS...`, so that the node, which has
threads, never runs Python code between fork and exec. It imports nothing of Headgate. Its standard input is a
socket to the node. The node writes signal numbers for the program's process group, one byte each, and closes
the socket, on purpose or by its own death, to end everything. The launcher writes the program's process ID,
and at the end its waitpid status, as numbers of four bytes.

On Linux, the launcher is the "subreaper" of the program: daemons that leave the program's group and session
become children of the launcher, which kills them when the program has ended.
"""

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CANNOT_EXECUTE = 126
_WAIT_S = 10.0
"""Maximum wait for a process that cannot be killed, for example because it runs as another user."""
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD)
"""Only the node stops the launcher: signals sent to its session are meant for the program."""


def main(arguments: list[str]) -> None:
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    for number in _IGNORED:
        signal.signal(number, lambda *_: None)
    _become_subreaper()
    program = _start(arguments)
    with contextlib.suppress(OSError):
        control.send(program.to_bytes(4))
    status = _until_ended(program, control, woken)
    if sys.platform == "linux":
        _end_descendants()
    with contextlib.suppress(OSError):
        control.send(status.to_bytes(4))


def _start(command: list[str]) -> int:
    launcher = os.getpid()
    executed, execution = os.pipe()
    program = os.fork()
    if program:
        # exec closes the pipe. Before that, a signal for the program's group would be lost.
        os.close(execution)
        os.read(executed, 1)
        os.close(executed)
        return program
    # From here on this is the child, which must not return.
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (*_IGNORED, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores the last two
            signal.signal(number, signal.SIG_DFL)
        _die_with(launcher)
        os.execvp(command[0], command)  # noqa: S606 - running the Pod's command is the purpose
    except OSError as error:
        os.write(2, f"cannot execute {command[0]!r}: {error.strerror}\n".encode())
    finally:
        os._exit(_CANNOT_EXECUTE)


def _until_ended(program: int, control: socket.socket, woken: int) -> int:
    """Forward signals until the program has ended; returns its status."""
    open_files = [woken, control.fileno()]
    while True:
        ready, _, _ = select.select(open_files, [], [])
        if woken in ready:
            os.read(woken, 4096)
        if control.fileno() in ready:
            orders = _received(control)
            if not orders:  # the node wants everything to end, or has died
                open_files.remove(control.fileno())
                orders = bytes([signal.SIGKILL])
            for number in orders:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(program, number)
        status = _reap(program)
        if status is not None:
            return status


def _received(control: socket.socket) -> bytes:
    try:
        return control.recv(64)
    except OSError:
        return b""


def _reap(program: int) -> int | None:
    """Reap ended processes; returns the status of the program if it is among them."""
    while True:
        try:
            # Check without reaping: while the program is a zombie, its process ID is not reused.
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return None
        if ended is None:
            return None
        if ended.si_pid == program:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(program, signal.SIGKILL)
            return os.waitpid(program, 0)[1]
        os.waitpid(ended.si_pid, 0)


def _end_descendants() -> None:
    """Kill all descendants of this process. Children forked meanwhile are found in the next round."""
    until = time.monotonic() + _WAIT_S
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < until:
            for pid in _descendants():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.001)


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found, pending = [], [os.getpid()]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def _parents() -> Iterator[tuple[int, int]]:
    """Every process of the machine with its parent, if there is a /proc."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                yield int(name), int(file.read().rpartition(b")")[2].split()[1])


def _become_subreaper() -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _die_with(parent: int) -> None:
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # The launcher may have died before the call; then the signal would never arrive.
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
