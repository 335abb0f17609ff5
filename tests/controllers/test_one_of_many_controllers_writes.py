"""Controllers beside each other: the leader writes statuses, the others take over when it is gone."""

import asyncio
import contextlib
import os
import re
import signal
import sys

from headgate import api
from headgate.controllers import StatusController

LEASE_S = 4.0
LEADS, LOST = "leads by Lease", "no longer leads by Lease"


class Told:
    """Leadership that a test gives and takes."""

    def __init__(self):
        self._held = asyncio.Event()

    def hold(self, is_held):
        self._held.set() if is_held else self._held.clear()

    def is_held(self):
        return self._held.is_set()

    async def acquired(self):
        await self._held.wait()


async def test_who_does_not_lead_writes_nothing(client, kit):
    """It follows all objects meanwhile, and writes as soon as it leads."""
    told, ready = Told(), asyncio.Event()
    controller = StatusController(client, leadership=told)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(controller.run(2, ready.set))
        await ready.wait()
        await client.create(kit.route("r", kit.rule("none")))
        await asyncio.sleep(0.5)
        assert (await client.get(api.ModelRoute, "r", "default")).status is None
        told.hold(True)

        async def has_status():
            return (await client.get(api.ModelRoute, "r", "default")).status is not None

        await kit.eventually(has_status)
        written = controller.statistics().written
        told.hold(False)
        await client.create(kit.route("other", kit.rule("none")))
        await asyncio.sleep(0.5)
        assert controller.statistics().written == written
        running.cancel()


class Process:
    """`headgate controller` with a Lease, and what it logs."""

    def __init__(self, process, log):
        self.pid = process.pid
        self._process, self._log = process, log

    @property
    def log(self):
        return self._log.read_text()

    @property
    def identity(self):
        found = re.search(r"(\S+_[0-9a-f]{8}) runs for Lease default/c", self.log)
        return found and found[1]

    def send(self, signum):
        os.kill(self.pid, signum)

    async def ended(self):
        return await asyncio.wait_for(self._process.wait(), 60.0)


@contextlib.asynccontextmanager
async def controllers(kubeconfig, tmp_path, count):
    processes = []
    try:
        for number in range(count):
            log = tmp_path / f"controller-{number}.log"
            with log.open("wb") as out:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "headgate", "controller", f"--kubeconfig={kubeconfig}"),
                    *("--leader-elect=default/c", f"--lease-s={LEASE_S}"),
                    stderr=out,
                )
            processes.append((process, Process(process, log)))
        yield [each for _, each in processes]
    finally:
        for process, _ in processes:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGCONT)
                    process.kill()
                await process.wait()


async def holder(client):
    return (await client.get(api.Lease, "c", "default")).spec.holder_identity


async def _leader_of(client, kit, some):
    """The process that holds the Lease."""
    found = None

    async def is_known():
        nonlocal found
        with contextlib.suppress(Exception):
            held = await holder(client)
            found = next((each for each in some if each.identity == held), None)
        return found is not None

    await kit.eventually(is_known)
    return found


async def _status_comes(client, kit, name):
    await client.create(kit.route(name, kit.rule("none")))

    async def has_status():
        return (await client.get(api.ModelRoute, name, "default")).status is not None

    await kit.eventually(has_status)


async def test_a_paused_leader_that_wakes_up_late_does_nothing(apiserver_running, client, kit, tmp_path):
    """Another took over; the first sees that its time is over, and waits for its turn."""
    async with controllers(apiserver_running.kubeconfig, tmp_path, 2) as both:
        first = await _leader_of(client, kit, both)
        await _status_comes(client, kit, "before")
        first.send(signal.SIGSTOP)
        (second,) = set(both) - {first}
        assert await _leader_of(client, kit, [second]) is second
        await _status_comes(client, kit, "meanwhile")
        first.send(signal.SIGCONT)

        async def knows():
            return LOST in first.log

        await kit.eventually(knows)
        assert await holder(client) == second.identity
        assert (first.log + second.log).count("Traceback") == 0


async def test_a_killed_leader_is_followed_and_an_ended_one_at_once(apiserver_running, client, kit, tmp_path):
    async with controllers(apiserver_running.kubeconfig, tmp_path, 3) as some:
        first = await _leader_of(client, kit, some)
        first.send(signal.SIGKILL)
        others = [each for each in some if each is not first]
        second = await _leader_of(client, kit, others)
        await _status_comes(client, kit, "after-the-kill")
        second.send(signal.SIGTERM)
        assert await second.ended() == 0
        (third,) = set(others) - {second}
        assert await _leader_of(client, kit, [third]) is third
        await _status_comes(client, kit, "after-the-end")
