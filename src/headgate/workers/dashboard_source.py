"""What the dashboard shows, from the supervisor and its workers."""

from __future__ import annotations

import asyncio
import importlib.metadata
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headgate.dashboard import Objects, Told
from headgate.telemetry.sums import Family
from headgate.workers.connection import NoAnswer
from headgate.workers.messages import Answered

if TYPE_CHECKING:
    from headgate.workers.supervisor import Supervisor

ANSWER_S = 2.0


class DashboardSource:
    """dashboard.Workers of one supervisor."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    async def ask(self, path: str) -> Told:
        """Workers that start have nothing to tell yet, and those that retire still have requests."""
        path, _, query = path.partition("?")
        asked = [each for each in self._supervisor.workers if each.reports.ready.is_set()]
        answers = await asyncio.gather(
            *(each.connection.ask("GET", path, query, b"", ANSWER_S) for each in asked),
            return_exceptions=True,
        )
        bodies: dict[int, bytes] = {}
        silent: list[str] = []
        for worker, answer in zip(asked, answers, strict=True):
            if isinstance(answer, Answered) and answer.status == 200:
                bodies[worker.pid] = answer.body
            elif isinstance(answer, Answered):
                silent.append(f"worker {worker.slot} runs another version, which does not tell this")
            elif isinstance(answer, NoAnswer):
                silent.append(str(answer))
            else:
                raise answer
        return Told(bodies, silent)

    def facts(self) -> Mapping[str, Any]:
        supervisor = self._supervisor
        settings = supervisor.configuration.settings
        states = [worker.state for worker in supervisor.workers]
        return {
            "version": importlib.metadata.version("headgate"),
            "address": f"{settings.listen.host}:{settings.listen.port}",
            "is_ready": supervisor.is_ready,
            "has_api_server": not settings.objects.are_given,
            "states": {state: states.count(state) for state in sorted(set(states))},
            "errors": [*supervisor.configuration.errors, *supervisor.objects.errors],
        }

    async def families(self, names: Collection[str]) -> Sequence[Family]:
        """As just reported, or if a worker does not respond, as it reported last."""
        asked = (each.connection.count(ANSWER_S) for each in self._supervisor.workers)
        await asyncio.gather(*asked, return_exceptions=True)
        return self._supervisor.workers.families(names)

    async def objects(self) -> Objects:
        """Read anew by each call. Nothing is kept open: that nobody looks is the rule."""
        settings = self._supervisor.configuration.settings
        if settings.objects.are_given:
            return Objects()
        # Only who looks at this page needs a client in this process.
        from headgate.workers.dashboard_objects import read

        return await read(settings.kubernetes.kubeconfig, sorted(settings.kubernetes.namespaces))

    def urls(self) -> Sequence[Mapping[str, Any]]:
        shown = self._supervisor.objects.shown()
        return shown["endpoints"] if shown is not None else []
