"""Reads one endpoint, for as long as it is in a pool."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from headgate import engines, fleet
from headgate.engine_client import FetchError, Response
from headgate.observe import model_list
from headgate.observe.endpoint_requests import EndpointRequests
from headgate.observe.looks import Looks, Result
from headgate.observe.process import Connector, Listener
from headgate.observe.targets import Target

log = logging.getLogger(__name__)

T = TypeVar("T")

JITTER = 0.1
"""Relative jitter of the intervals, so that reads do not synchronize."""


class Pause:
    """A wait that can be ended early."""

    def __init__(self) -> None:
        self._future: asyncio.Future[None] | None = None

    async def wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._future = loop.create_future()
        timer = loop.call_later(seconds, self.end)
        try:
            await self._future
        finally:
            timer.cancel()

    def end(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


class Watch:
    """Reads one endpoint periodically, and sets the reading of its state."""

    def __init__(
        self,
        target: Target,
        load: fleet.EndpointState,
        looks: Looks,
        connector: Connector,
        listener: Listener,
    ) -> None:
        """Raises SSLError if the CA certificates for its server are invalid."""
        self.target = target
        self.load = load
        self.observation = fleet.Observation()
        self.problem = ""
        """The problem of the last read; empty if there was none."""
        self._looks = looks
        self._listener = listener
        self._failures = 0
        """Consecutive reads without a page."""
        self._read_s = 0.0
        """CPU time for parsing the result of the last read."""
        self._models = model_list.ModelListSchedule()
        self._logged_state: fleet.ReadingState = "missing"
        self._pause = Pause()
        self._requests = EndpointRequests(target, looks, connector)

    # -- state

    def state(self, now: float) -> fleet.ReadingState:
        return self.observation.state(now, self._looks.pace.stale_s)

    def settle(self, now: float) -> None:
        """Set the endpoint's reading to what can be relied on, and log changes of its state."""
        state, reading = self.state(now), self.observation.reading
        if state == "unsupported":
            is_current = reading is not None and now - reading.at <= model_list.STALE_S
        else:
            is_current = state == "fresh"
        current = reading if is_current else None
        if current is not self.load.reading:
            self.load.read(current)
            self._listener.heard(self.load)
        if state != self._logged_state:
            self._logged_state = state
            self._log_state(state)

    def _log_state(self, state: fleet.ReadingState) -> None:
        endpoint = self.target.endpoint
        if state == "fresh":
            log.info("the metrics of %s (%s) are read", endpoint.name, endpoint.address)
            return
        log.warning(
            "the metrics of %s (%s) are %s: %s. Its load is what this gateway sends there",
            endpoint.name,
            endpoint.address,
            state,
            self.problem or "it takes too long for a page",
        )

    @property
    def heard_at(self) -> float:
        """When the endpoint last responded to a request of the gateway's own."""
        return self._requests.heard_at

    def is_unanswered(self, now: float) -> bool:
        """Whether the endpoint, which used to respond, leaves such a request without a response."""
        return self._requests.is_unanswered(now)

    def list_models_soon(self) -> None:
        """List the models soon: a request used one that is missing in the list, or a listed one is gone."""
        self._models.want_soon()
        if self._models.is_due(self._looks.now()):
            self._pause.end()

    # -- reading

    async def run(self) -> None:
        """Run until cancelled."""
        rng = self._looks.rng
        try:
            await self._pause.wait(rng.random() * self._looks.pace.rest_s)
            while True:
                await self._pause.wait(self._looks.take_turn())
                try:
                    async with self._looks.slots:
                        pause_s = await self._read_once()
                except Exception:
                    # Our own error with some page: the others must not suffer from it.
                    log.exception("looking at %s", self.target.endpoint.name)
                    self._failures += 1
                    pause_s = self._looks.pace.after_failures(self._failures)
                self.settle(self._looks.now())
                await self._pause.wait(pause_s * (1 + JITTER * (2 * rng.random() - 1)))
        finally:
            self.load.read(None)
            self._requests.close()

    async def _read_once(self) -> float:
        """Read once; returns how long to wait before the next read."""
        looks = self._looks
        began, self._read_s = looks.now(), 0.0
        if self._models.is_due(began):
            self._models.request(began)
            await self._list_models(began)
        if self.target.engine.metrics is None:
            self.observation.see_no_page(began)
            self.problem = f"an engine of kind {self.target.engine.name} has no page that is known"
            return model_list.INTERVAL_S
        began = looks.now()
        result = await self._read_page(self.target.engine.metrics, began)
        looks.pages[result] += 1
        if result == "read":
            self._failures = 0
            took_s, is_waited_for = looks.now() - began, self._listener.is_waited_for(self.load)
            return looks.pace.after(
                self.observation.reading, took_s, self._read_s, is_waited_for=is_waited_for
            )
        self._failures += 1
        return looks.pace.after_failures(self._failures)

    async def _read(self, body: Callable[[], T]) -> T:
        """Parse a response. Only one is parsed at a time, and then others get the event loop for as long as
        that took."""
        async with self._looks.reading:
            began = time.thread_time()
            try:
                return body()
            finally:
                took_s = time.thread_time() - began
                self._read_s += took_s
                await asyncio.sleep(took_s)

    async def _read_page(self, names: engines.MetricNames, at: float) -> Result:
        try:
            async with self._requests.page(self.target.page_path) as response:
                figures = await self._figures(response, names, at)
        except FetchError as error:
            self.problem = f"it {error}"
            return "failed"
        if isinstance(figures, str):
            return figures
        self._looks.malformed_families += figures.malformed
        if not figures.says_load:
            self.problem = f"its page has no metrics of {self.target.engine.name}"
            self.observation.see_no_page(at)
            return "absent"
        self.problem = ""
        if self.observation.see(figures, at):
            self._models.want_at(at)
            self._restarted()
        return "read"

    def _restarted(self) -> None:
        self._looks.restarts += 1
        endpoint = self.target.endpoint
        log.info("the engine of %s (%s) has started anew", endpoint.name, endpoint.address)
        self.load.begins_anew(self._looks.now())
        self._listener.restarted(self.load)

    async def _figures(
        self, response: Response, names: engines.MetricNames, at: float
    ) -> engines.Figures | Result:
        """The figures of a page, or the failure if there are none."""
        if response.status != 200:
            self.problem = f"it answers {response.status} to GET {self.target.page_path}"
            if response.status not in (404, 405):
                return "failed"
            self.observation.see_no_page(at)
            return "absent"
        try:
            return await self._read(functools.partial(engines.read, response.body, names))
        except engines.PageTooLargeError as error:
            self.problem = f"it sends a page that {error}"
            return "failed"

    async def _list_models(self, at: float) -> None:
        """Read the list of models. Without it, nothing is known of adapters without current requests."""
        with suppress(FetchError, ValueError):
            async with self._requests.json(f"{self.target.endpoint.prefix}/v1/models") as response:
                if response.status == 200:
                    listed = await self._read(functools.partial(engines.read_models, response.body))
                    self.observation.list_models(listed.names, at, listed.adapters)
