"""A gateway from its settings to its end: the supervisor, its pages, and what signals do to them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import msgspec

from headgate import serving, telemetry
from headgate.cli import process
from headgate.cli.gateway import configuration as reading
from headgate.workers import pages, sockets
from headgate.workers.configuration import Configuration
from headgate.workers.messages import known
from headgate.workers.supervisor import HandOver, StartError, Supervisor

log = logging.getLogger(__name__)

HANDED_OVER = "HEADGATE_GATEWAY_HANDED_OVER"
"""Environment variable: descriptor of the file with what the supervisor before this one left."""
CHECK_S = 60.0

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)


def run(file: Path | None, flags: Mapping[str, Any]) -> None:
    """Serves until a signal says to stop.

    Raises ConfigurationErrors, or ClickException for whatever else keeps it from starting.
    """
    registry = telemetry.Registry()
    process.log_to_stderr("info")
    past = _taken_over()
    settings = known(past.settings) if past is not None else None
    configuration = Configuration(lambda: reading.load(file, flags), file, registry, settings)
    logging.getLogger().setLevel(configuration.settings.logging.level.upper())
    with process.explained(OSError, StartError):
        handed_over = asyncio.run(_serve(configuration, registry, past))
    if handed_over is not None:
        _become_the_next(handed_over)


async def _serve(
    configuration: Configuration, registry: telemetry.Registry, handed_over: HandOver | None
) -> HandOver | None:
    supervisor = Supervisor(configuration, registry, handed_over)
    signals = _Signals(supervisor)
    leave = signals.upgrade
    try:
        async with asyncio.TaskGroup() as tasks:
            here = supervisor.sockets
            shown = [
                tasks.create_task(_page("metrics", pages.metrics_page, here.metrics, supervisor, leave)),
                tasks.create_task(_page("admin", pages.admin_page, here.admin, supervisor, leave)),
            ]
            beside: list[Coroutine[Any, Any, None]] = [
                configuration.watch(supervisor.change_settings),
                _announce(supervisor),
                signals.upgrade_when_told(),
            ]
            running = [tasks.create_task(each) for each in beside]
            with signals.heard():
                left = await supervisor.run(signals.stop, signals.upgrade)
            if left is not None:
                await asyncio.gather(*shown)
            for task in (*running, *shown):
                task.cancel()
        return left
    finally:
        if not signals.upgrade.is_set():
            supervisor.sockets.close()


async def _page(
    name: str,
    make: Callable[[Supervisor], serving.Application],
    sock: socket.socket,
    supervisor: Supervisor,
    leave: asyncio.Event,
) -> None:
    """On a copy of the socket: it stays open for who comes after an upgrade."""

    def rejected(reason: serving.Reason) -> None:
        supervisor.page_rejections.labels(name, reason).value += 1

    listener = serving.Listener(sock.family, os.dup(sock.fileno()))
    listener.on_turned_away = lambda: rejected("out_of_descriptors")
    await serving.serve_page(make(supervisor), listener, leave, rejected=rejected)


async def _announce(supervisor: Supervisor) -> None:
    await supervisor.serving.wait()
    here = supervisor.sockets
    beside = f"metrics on {sockets.url(here.metrics)}/metrics, admin on {sockets.url(here.admin)}"
    process.say(f"headgate gateway is ready on {sockets.url(here.api[0])}; {beside}", err=True)


class _Signals:
    """What the signals of an operator do."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._wants_upgrade = asyncio.Event()
        self.stop = asyncio.Event()
        self.upgrade = asyncio.Event()

    @contextlib.contextmanager
    def heard(self) -> Any:
        loop = asyncio.get_running_loop()
        handlers: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGTERM: lambda: self._stop(signal.SIGTERM),
            signal.SIGINT: lambda: self._stop(signal.SIGINT),
            signal.SIGHUP: self._reload,
            signal.SIGUSR2: self._wants_upgrade.set,
        }
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        yield
        if self.upgrade.is_set():
            signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        for number in handlers:
            loop.remove_signal_handler(number)
            if self.upgrade.is_set():
                signal.signal(number, _leave_to_the_next)
        if self.upgrade.is_set() and self.stop.is_set():
            signal.raise_signal(signal.SIGTERM)

    def _stop(self, number: signal.Signals) -> None:
        if not self.stop.is_set():
            self.stop.set()
            return
        self._supervisor.kill()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _reload(self) -> None:
        if self._supervisor.configuration.reload():
            self._supervisor.change_settings()

    async def upgrade_when_told(self) -> None:
        """The upgrade begins only if the program as it is now accepts flags and file."""
        while True:
            await self._wants_upgrade.wait()
            self._wants_upgrade.clear()
            if problem := await _refused_by_the_next():
                log.error("no upgrade: %s", problem)
            else:
                log.info("upgrade: the supervisor and then each worker is replaced")
                self.upgrade.set()


def _leave_to_the_next(number: int, _: object) -> None:
    """Makes a signal wait until the next supervisor listens: by default it would end the process, and its
    workers with it. This thread blocks it; one that another thread was given comes here, and waits, too.
    """
    signal.raise_signal(number)


async def _refused_by_the_next() -> str:
    """What the program that is installed now says against these flags and this file; "" for nothing."""
    try:
        check = await asyncio.create_subprocess_exec(
            *_command(),
            "--check-config",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        return f"`--check-config` cannot be run: {process.told(error)}"
    try:
        async with asyncio.timeout(CHECK_S):
            output, _ = await check.communicate()
    except TimeoutError:
        return f"`--check-config` did not end in {CHECK_S:g} s"
    finally:
        if check.returncode is None:
            check.kill()
    return "" if check.returncode == 0 else output.decode(errors="replace").strip()


def _command() -> list[str]:
    """How this process was started."""
    return [sys.executable, *sys.orig_argv[1:]]


def _become_the_next(handed_over: HandOver) -> None:
    """Runs the program that is installed now in this process, which keeps its number and its children."""
    left = os.memfd_create("headgate-gateway")
    os.write(left, msgspec.msgpack.encode(handed_over))
    os.lseek(left, 0, os.SEEK_SET)
    os.set_inheritable(left, True)
    command = _command()
    logging.shutdown()  # writes the lines that wait
    os.execve(command[0], command, {**os.environ, HANDED_OVER: str(left)})  # noqa: S606 - no shell is wanted


def _taken_over() -> HandOver | None:
    """What the supervisor before this one left in this process."""
    left = os.environ.pop(HANDED_OVER, None)
    if left is None:
        return None
    with open(int(left), "rb") as file:
        return msgspec.msgpack.decode(file.read(), type=HandOver)
