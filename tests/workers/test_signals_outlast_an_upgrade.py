"""Between a supervisor and the next in its process, signals wait: none is lost, and none ends it."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator

import pytest

from headgate import telemetry
from headgate.cli.gateway import running
from headgate.gateway import GatewaySettings
from headgate.workers.configuration import Configuration
from headgate.workers.supervisor import Supervisor

NUMBERS = {signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2}


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    settings = GatewaySettings().replace(listen_port=0, metrics_port=0, admin_port=0)
    made = Supervisor(Configuration(lambda: settings, None, telemetry.Registry()), telemetry.Registry())
    yield made
    made.sockets.close()


@pytest.fixture
def waiting() -> Iterator[None]:
    """Takes out what waits in the end, so that it ends nothing."""
    before = {number: signal.getsignal(number) for number in running._SIGNALS}
    yield
    while signal.sigtimedwait(NUMBERS, 0):
        pass
    for number, handler in before.items():
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, running._SIGNALS)


@pytest.mark.usefixtures("waiting")
async def test_a_stop_that_comes_as_an_upgrade_begins_is_told_to_the_next(supervisor):
    """Kubernetes says it once."""
    signals = running._Signals(supervisor)
    with signals.heard():
        signals.upgrade.set()
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(signals.stop.wait(), 60)
    assert signal.SIGTERM in signal.sigpending()


@pytest.mark.usefixtures("waiting")
async def test_signals_that_come_when_nobody_listens_wait(supervisor):
    """By default the system would end the process."""
    signals = running._Signals(supervisor)
    with signals.heard():
        signals.upgrade.set()
    for number in (signal.SIGHUP, signal.SIGUSR2):
        signal.raise_signal(number)
    assert signal.sigpending() == {signal.SIGHUP, signal.SIGUSR2}


@pytest.mark.usefixtures("waiting")
async def test_signals_that_another_thread_is_given_wait_as_well(supervisor):
    """The system gives a signal of the process to any thread that does not block it."""
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    signals = running._Signals(supervisor)
    with signals.heard():
        signals.upgrade.set()
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(60):
        while signal.SIGTERM not in signal.sigpending():
            await asyncio.sleep(0)
    over.set()
    other.join()
