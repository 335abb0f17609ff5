"""The worker process: `python -m headgate.cli.gateway.worker DESCRIPTOR`, the descriptor of its channel."""

import socket
import sys

import uvloop

from headgate import cluster, peers
from headgate.cli import process
from headgate.workers import channel
from headgate.workers.worker import run_worker

_TOLD = (cluster.ConfigurationError, peers.ConfigurationError, OSError, channel.Closed)


def main(descriptor: int) -> int:
    """Serve until the supervisor stops this worker; returns the exit code."""
    process.log_to_stderr("info")
    sock = socket.socket(fileno=descriptor)
    sock.set_inheritable(False)
    code = 0
    try:
        uvloop.run(run_worker(sock))
    except Exception as error:
        if not all(isinstance(each, _TOLD) for each in process.leaves(error)):
            raise
        code = 1  # the worker reported the reason to the supervisor, which logs it
    return code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
