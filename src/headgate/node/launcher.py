"""Becomes the program of a container, after tying its life to the node's.

Run as a script of its own, `python -I -S launcher.py NODE_PID PROGRAM ARGUMENTS...`, so that the node,
which has threads, never runs Python code between fork and exec. It imports nothing of Headgate.
"""

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_CANNOT_EXECUTE = 126


def main(arguments: list[str]) -> None:
    node_pid, *command = arguments
    if sys.platform == "linux":
        _die_with(int(node_pid))
    try:
        os.execvp(command[0], command)  # noqa: S606 - running the Pod's command is the purpose
    except OSError as error:
        sys.stderr.write(f"cannot execute {command[0]!r}: {error.strerror}\n")
        sys.exit(_CANNOT_EXECUTE)


def _die_with(parent: int) -> None:
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # The node may have died before the request was made; then the signal would never come.
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
