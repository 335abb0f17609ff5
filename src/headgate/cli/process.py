"""Shared by long-running commands: event loop, log on standard error, clean shutdown on signals."""

import asyncio
import contextlib
import errno
import io
import logging
import os
import resource
import select
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar

import click
import uvloop

from headgate import telemetry

T = TypeVar("T")

INTERRUPTED = 130
"""Exit code that shells report for SIGINT."""
INTERRUPTED_S = 2.0

Main = Callable[[asyncio.Event], Awaitable[None]]
"""Runs until the event is set, then shuts down cleanly."""


def run(main: Main, *, log_level: str = "info", known: tuple[type[Exception], ...] = ()) -> None:
    """Run `main` until SIGTERM or SIGINT; a second signal ends the process immediately.

    Errors that the user can fix (an address in use, and those of `known`, such as a missing kubeconfig)
    become one line and exit code 1.
    """
    log_to_stderr(log_level)
    with explained(OSError, click.ClickException, *known):
        uvloop.run(_until_signal(main))


def run_once(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a command that ends by itself, or with KeyboardInterrupt on SIGINT.

    `asyncio.run` notices a signal only when its loop wakes up for another reason, if the signal arrives just
    before the loop starts to wait or is delivered to another thread. A signal handler of the loop wakes it.
    Work that cannot be cancelled, such as a name lookup in a thread, gets INTERRUPTED_S to finish.
    """

    async def interruptible() -> T:
        loop = asyncio.get_running_loop()
        running = asyncio.ensure_future(main())
        is_interrupted = False

        def interrupt() -> None:
            nonlocal is_interrupted
            is_interrupted = True
            running.cancel()
            loop.remove_signal_handler(signal.SIGINT)  # a second signal raises KeyboardInterrupt immediately
            last = threading.Timer(INTERRUPTED_S, os._exit, (INTERRUPTED,))
            last.daemon = True
            last.start()

        loop.add_signal_handler(signal.SIGINT, interrupt)
        try:
            return await running
        except asyncio.CancelledError:
            if is_interrupted:
                raise KeyboardInterrupt from None
            raise
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    in_main_thread = threading.current_thread() is threading.main_thread()
    return asyncio.run(interruptible() if in_main_thread else main())


def log_to_stderr(log_level: str) -> None:
    """Log to standard error from this level on, without ever blocking on it."""
    if not logging.getLogger().handlers:
        handler = telemetry.LineHandler(2)
        handler.setFormatter(telemetry.LineFormatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
        logging.basicConfig(level=log_level.upper(), handlers=[handler])
    for chatty in ("httpx2", "httpcore2", "uvicorn"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def say(text: str, *, err: bool = False) -> None:
    """Print one line to standard output or error; drop it if it cannot be written immediately."""
    Output(2 if err else 1).write(f"{text}\n")


class Output(io.TextIOBase):
    """Standard output or error that neither blocks nor fails: text that cannot be written is dropped."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def write(self, text: str) -> int:
        data = memoryview(text.encode(errors="replace"))
        with contextlib.suppress(OSError):
            while data and self._poll.poll(0):
                # a writable pipe accepts at least PIPE_BUF bytes
                data = data[os.write(self._descriptor, data[: select.PIPE_BUF]) :]
        return len(text)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)


@contextlib.contextmanager
def explained(*known: type[Exception]) -> Iterator[None]:
    """Raise ClickException if every exception of the block, alone or in groups, is of these types."""
    # Not `except*`: Python 3.11.2 wraps exceptions raised there in a group.
    try:
        yield
    except Exception as error:
        found = leaves(error)
        if not all(isinstance(each, known) for each in found):
            raise
        raise click.ClickException(_all_told(found)) from error


def leaves(error: BaseException) -> list[BaseException]:
    """All exceptions of nested groups in one list; any other exception by itself."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in leaves(each)]


def _all_told(found: list[BaseException]) -> str:
    """Each message once; if files ran out, only that, because the other errors follow from it."""
    for each in found:
        if isinstance(each, OSError) and each.errno in (errno.EMFILE, errno.ENFILE):
            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            return f"too many open files, the limit is {limit}: raise it (ulimit -n, LimitNOFILE=)"
    return "; ".join(dict.fromkeys(map(told, found)))


def told(error: BaseException) -> str:
    """The error message with the file name; without the errno, which means nothing to most people."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


async def _until_signal(main: Main) -> None:
    await main(stop_on_signal())


def stop_on_signal() -> asyncio.Event:
    """Return an event that the first SIGTERM or SIGINT sets; a second one has its default effect."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return stop
