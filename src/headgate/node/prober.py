"""Probes one run of a container from its start to its end, and tells each change of verdict."""

import asyncio
import time
from collections.abc import Callable

from headgate import api
from headgate.node import probes
from headgate.node.probe_schedule import ProbeKind, ProbeSchedule

Verdict = Callable[[ProbeKind, probes.Answer], None]


async def probe(
    container: api.Container, target: probes.ProbeTarget, tell: Verdict, *, liveness: bool = True
) -> None:
    """All probes of a run: the startup probe first, then the others side by side. Runs until cancelled."""
    if container.startup_probe is not None:
        await _follow(ProbeKind.STARTUP, container.startup_probe, target, tell)
    async with asyncio.TaskGroup() as tasks:
        if container.readiness_probe is not None:
            tasks.create_task(_follow(ProbeKind.READINESS, container.readiness_probe, target, tell))
        if container.liveness_probe is not None and liveness:
            tasks.create_task(_follow(ProbeKind.LIVENESS, container.liveness_probe, target, tell))


async def _follow(kind: ProbeKind, asked: api.Probe, target: probes.ProbeTarget, tell: Verdict) -> None:
    """Ask again and again; a startup probe ends with its first verdict."""
    schedule = ProbeSchedule(kind, asked, time.monotonic())
    while True:
        await asyncio.sleep(max(0.0, schedule.next_at - time.monotonic()))
        answer = await probes.ask(asked, target)
        if schedule.answered(answer.healthy, time.monotonic()):
            tell(kind, answer)
            if kind is ProbeKind.STARTUP:
                return
