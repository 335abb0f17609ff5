"""An init container that fails again and again shows it in the status of its Pod, which changes in nothing
else meanwhile."""

import asyncio
import random

from headgate import api
from headgate.node.status_writer import StatusWriter


def ended(restarts: int) -> list[api.ContainerStatus]:
    last = api.ContainerStateTerminated(exit_code=21, message="no such repository")
    state = api.ContainerState(terminated=last)
    return [api.ContainerStatus(name="download", restart_count=restarts, last_state=state)]


async def test_each_attempt_is_written():
    status, written = api.PodStatus(phase="Pending"), []

    async def write(one: api.PodStatus) -> None:
        written.append(one)

    writer = StatusWriter("default/p", status, write, random.Random(1))
    running = asyncio.create_task(writer.run())
    for attempt in range(3):
        writer.show(status, ended(attempt))
        await writer.flush(30)
        assert len(written) == attempt + 1
    writer.show(status, ended(2))
    await writer.flush(30)
    assert len(written) == 3, "nothing changed"
    running.cancel()
