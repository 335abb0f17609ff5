"""The metrics page of the sidecar: that of the engine, with unified names, and a few metrics of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from headgate.engines import unified
from headgate.runtime.engine import Engine, FetchError

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
OWN: Final = "headgate_runtime_"
_HELP: Final = {
    "engine_up": "Whether the engine's metrics page was read.",
    "engine_page_dropped_lines": "Lines of the engine's page that are left out because they are not valid.",
    "adapters": "Desired adapters by state.",
    "drain_waiting": "Requests to /drain that wait for the engine.",
}

log = logging.getLogger(__name__)


class Page:
    """Makes the page. Scrapes at the same time share one request to the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._reading: asyncio.Task[bytes] | None = None
        self._problem = ""

    async def text(self, own: Mapping[str, int]) -> bytes:
        """The page, which has at least the metrics of the sidecar. `own` are its gauges, by name and labels.

        Never raises, whatever the engine sends.
        """
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
            self._reading.add_done_callback(self._done)
        return await asyncio.shield(self._reading) + _gauges(own)

    async def aclose(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    def _done(self, task: asyncio.Task[bytes]) -> None:
        self._reading = None

    async def _read(self) -> bytes:
        try:
            response = await self._engine.page()
        except FetchError as error:
            return self._without_engine(str(error))
        if response.status != 200:
            return self._without_engine(f"sent status {response.status} for its metrics page")
        self._tell("")
        page = unified.unify(response.body, self._engine.kind, OWN.encode())
        return page.text + _gauges({"engine_up": 1, "engine_page_dropped_lines": page.dropped_lines})

    def _without_engine(self, problem: str) -> bytes:
        self._tell(problem)
        return b"# The engine at %s %s\n" % (
            str(self._engine.address).encode(),
            " ".join(problem.split()).encode(),
        ) + _gauges({"engine_up": 0})

    def _tell(self, problem: str) -> None:
        """Log each new problem once."""
        if problem and problem != self._problem:
            log.warning("%s %s", self._engine.address, problem)
        self._problem = problem


def _gauges(values: Mapping[str, int]) -> bytes:
    """Gauges in text; a name may have labels, and those of one family follow each other."""
    lines: list[str] = []
    last = ""
    for name, value in values.items():
        family = name.partition("{")[0]
        if family != last:
            lines += [f"# HELP {OWN}{family} {_HELP[family]}", f"# TYPE {OWN}{family} gauge"]
        last = family
        lines.append(f"{OWN}{name} {value}")
    return "".join(f"{line}\n" for line in lines).encode()
