"""Run the gateway: the supervisor, its metrics and admin pages, and signal handling."""

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
from typing import TYPE_CHECKING, Any

import msgspec

from headgate import serving, telemetry
from headgate.cli import process
from headgate.cli.gateway import configuration as reading
from headgate.workers import pages, sockets
from headgate.workers.configuration import Configuration
from headgate.workers.messages import known
from headgate.workers.supervisor import HandOver, StartError, Supervisor

if TYPE_CHECKING:
    from headgate.cli.gateway.self_signed import Files
    from headgate.standalone.source import StandaloneObjects

log = logging.getLogger(__name__)

HANDED_OVER = "HEADGATE_GATEWAY_HANDED_OVER"
"""Environment variable: descriptor of the file with the state that the previous supervisor handed over."""
CHECK_S = 60.0

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)


def run(file: Path | None, flags: Mapping[str, Any], own: Files | None = None) -> None:
    """Serve until a signal stops the gateway. `own`: the self-signed certificate, if there is one.

    Raises ConfigurationErrors, or ClickException for any other reason that prevents a start.
    """
    registry = telemetry.Registry()
    process.log_to_stderr("info")
    past = _taken_over()
    settings = known(past.settings) if past is not None else None
    configuration = Configuration(lambda: reading.load(file, flags), file, registry, settings)
    logging.getLogger().setLevel(configuration.settings.logging.level.upper())
    objects = None
    if configuration.settings.objects.are_given:
        from headgate.cli.gateway import own_objects  # takes tens of MB that others do without

        objects = own_objects.source(configuration.settings, past.objects if past is not None else ())
    with process.explained(OSError, StartError):
        handed_over = asyncio.run(_serve(configuration, registry, past, objects, own))
    if handed_over is not None:
        _become_the_next(handed_over)


async def _serve(
    configuration: Configuration,
    registry: telemetry.Registry,
    handed_over: HandOver | None,
    objects: StandaloneObjects | None,
    own: Files | None,
) -> HandOver | None:
    supervisor = Supervisor(configuration, registry, handed_over, objects)
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
                supervisor.credentials.run(),
                _announce(supervisor, own),
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
    """Serve on a copy of the socket: the original stays open for the next supervisor of an upgrade."""

    def rejected(reason: serving.Reason) -> None:
        supervisor.counters.page_rejections.labels(name, reason).value += 1

    listener = serving.Listener(sock.family, os.dup(sock.fileno()))
    listener.on_turned_away = lambda: rejected("out_of_descriptors")
    await serving.serve_page(make(supervisor), listener, leave, rejected=rejected)


async def _announce(supervisor: Supervisor, own: Files | None) -> None:
    await supervisor.serving.wait()
    here = supervisor.sockets
    is_secure = supervisor.configuration.settings.tls.is_on
    api = sockets.url(here.api[0], "https" if is_secure else "http")
    admin = sockets.url(here.admin)
    beside = f"metrics on {sockets.url(here.metrics)}/metrics, dashboard on {admin}/dashboard"
    if supervisor.is_open:
        log.warning(
            "ANYBODY who reaches %s may use this gateway: no credentials are needed. Make a key with "
            "`headgate key create TENANT --file keys.json`, and start with --auth-keys-file keys.json; or "
            "say that it is meant so with --auth-mode off",
            supervisor.configuration.settings.listen.host,
        )
    process.say(f"headgate gateway is ready on {api}; {beside}", err=True)
    if own is not None:
        process.say(
            f"its certificate is self-signed, with the SHA-256 fingerprint {own.fingerprint}", err=True
        )
        reached = f"https://{own.host}:{here.api[0].getsockname()[1]}" if own.host else api
        needs_key = supervisor.configuration.settings.auth.is_on
        credentials = " -H 'authorization: Bearer KEY'" if needs_key else ""
        process.say(f"try: curl --cacert {own.ca}{credentials} {reached}/v1/models", err=True)


class _Signals:
    """Handles the operator's signals."""

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
        """Upgrade only if the installed program accepts the current flags and file."""
        while True:
            await self._wants_upgrade.wait()
            self._wants_upgrade.clear()
            if problem := await _refused_by_the_next():
                log.error("no upgrade: %s", problem)
            else:
                log.info("upgrade: replacing the supervisor, then each worker")
                self.upgrade.set()


def _leave_to_the_next(number: int, _: object) -> None:
    """Keep a signal pending until the next supervisor handles signals: by default it would end the process
    and its workers. This thread blocks the signal; a signal delivered to another thread is redirected here.
    """
    signal.raise_signal(number)


async def _refused_by_the_next() -> str:
    """Check flags and file with the installed program; returns its error, or "" if it accepts them."""
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
        return f"`--check-config` did not finish in {CHECK_S:g} s"
    finally:
        if check.returncode is None:
            check.kill()
    return "" if check.returncode == 0 else output.decode(errors="replace").strip()


def _command() -> list[str]:
    """The command line that started this process."""
    return [sys.executable, *sys.orig_argv[1:]]


def _become_the_next(handed_over: HandOver) -> None:
    """Replace this process with the installed program; it keeps its process ID and its children."""
    left = os.memfd_create("headgate-gateway")
    os.write(left, msgspec.msgpack.encode(handed_over))
    os.lseek(left, 0, os.SEEK_SET)
    os.set_inheritable(left, True)
    command = _command()
    logging.shutdown()  # flushes buffered log lines
    os.execve(command[0], command, {**os.environ, HANDED_OVER: str(left)})  # noqa: S606 - no shell is wanted


def _taken_over() -> HandOver | None:
    """The state that the previous supervisor left in this process."""
    left = os.environ.pop(HANDED_OVER, None)
    if left is None:
        return None
    with open(int(left), "rb") as file:
        return msgspec.msgpack.decode(file.read(), type=HandOver)
