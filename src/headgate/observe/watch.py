"""Reads one endpoint, for as long as it is in a pool."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from headgate import engines, fleet, routing
from headgate.observe.fetch import Client, FetchError, Response
from headgate.observe.looks import Looks, Result
from headgate.observe.process import Connector, Listener
from headgate.observe.targets import Target

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_BODY_BYTES = 4 * 1024 * 1024
MODELS_INTERVAL_S = 30.0
"""Interval between two reads of the list of models, which changes when an adapter is loaded."""
SOONEST_S = 1.0
"""The shortest such interval, if a new list is wanted."""
MODELS_STALE_S = 3 * MODELS_INTERVAL_S
UNANSWERED_S = 1.0
"""A request without a response for longer is suspicious: pages take milliseconds."""
JITTER = 0.1
"""Relative jitter of the intervals, so that reads do not synchronize."""
TEXT = "text/plain; version=0.0.4"


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
        self.heard_at = -math.inf
        """When the endpoint itself last responded; a page on another server does not count."""
        self._requested_at = math.inf
        """When the open request was sent."""
        self._silent_since = math.inf
        """When the first request without a response since `heard_at` was sent."""
        self._looks = looks
        self._connector = connector
        self._listener = listener
        self._failures = 0
        """Consecutive reads without a page."""
        self._read_s = 0.0
        """CPU time for parsing the result of the last read."""
        self._models_at = -math.inf
        """When the list of models was last requested."""
        self._models_due_at = -math.inf
        self._logged_state: fleet.ReadingState = "missing"
        self._pause: asyncio.Future[None] | None = None
        self._page_client = self._client_for(target.page_port, target.page_tls)
        self._client = self._page_client
        if (target.page_port, target.page_tls) != (target.endpoint.port, target.tls):
            self._client = self._client_for(target.endpoint.port, target.tls)

    def _client_for(self, port: int, tls: routing.Tls | None) -> Client:
        endpoint = self.target.endpoint
        http2 = self.target.http2 and port == endpoint.port
        context = self._connector.tls_context(tls, http2=http2) if tls is not None else None
        name = tls.server_name if tls is not None else ""
        return Client(
            endpoint.host,
            port,
            context,
            name,
            http2=self._connector.speaking_http2 if http2 else None,
            turns=self._looks.turns,
            large=self._looks.large,
        )

    # -- state

    def state(self, now: float) -> fleet.ReadingState:
        return self.observation.state(now, self._looks.pace.stale_s)

    def settle(self, now: float) -> None:
        """Set the endpoint's reading to what can be relied on, and log changes of its state."""
        state, reading = self.state(now), self.observation.reading
        if state == "unsupported":
            is_current = reading is not None and now - reading.at <= MODELS_STALE_S
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

    def is_unanswered(self, now: float) -> bool:
        """Whether the endpoint, which used to respond, leaves a request without a response."""
        used_to_answer = self._silent_since - self.heard_at <= MODELS_STALE_S
        return now - self._requested_at >= UNANSWERED_S and used_to_answer

    @asynccontextmanager
    async def _response_to(self, client: Client, path: str, accept: str) -> AsyncIterator[Response]:
        """The response, which is read within the context. Raises FetchError."""
        try:
            yield await self._request(client, path, accept)
        finally:
            client.release()

    async def _request(self, client: Client, path: str, accept: str) -> Response:
        is_endpoint = client is self._client
        if is_endpoint:
            self._requested_at = self._looks.now()
            self._silent_since = min(self._silent_since, self._requested_at)
        try:
            response = await client.get(path, accept, MAX_BODY_BYTES, self._looks.timeout_s)
        finally:
            self._requested_at = math.inf
        if is_endpoint:
            self.heard_at = self._looks.now()
            self._silent_since = math.inf
        return response

    def list_models_soon(self) -> None:
        """List the models soon: a request used one that is missing in the list, or a listed one is gone."""
        self._models_due_at = min(self._models_due_at, self._models_at + SOONEST_S)
        if self._models_due_at <= self._looks.now() and self._pause is not None:
            _end(self._pause)

    # -- reading

    async def run(self) -> None:
        """Run until cancelled."""
        rng = self._looks.rng
        try:
            await self._wait(rng.random() * self._looks.pace.rest_s)
            while True:
                await self._wait(self._looks.take_turn())
                try:
                    async with self._looks.slots:
                        pause_s = await self._read_once()
                except Exception:
                    # Our own error with some page: the others must not suffer from it.
                    log.exception("looking at %s", self.target.endpoint.name)
                    self._failures += 1
                    pause_s = self._looks.pace.after_failures(self._failures)
                self.settle(self._looks.now())
                await self._wait(pause_s * (1 + JITTER * (2 * rng.random() - 1)))
        finally:
            self.load.read(None)
            self._page_client.close()
            self._client.close()

    async def _wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._pause = loop.create_future()
        timer = loop.call_later(seconds, _end, self._pause)
        try:
            await self._pause
        finally:
            timer.cancel()

    async def _read_once(self) -> float:
        """Read once; returns how long to wait before the next read."""
        looks = self._looks
        began, self._read_s = looks.now(), 0.0
        if began >= self._models_due_at:
            self._models_at, self._models_due_at = began, began + MODELS_INTERVAL_S
            await self._list_models(began)
        if self.target.engine.metrics is None:
            self.observation.see_no_page(began)
            self.problem = f"an engine of kind {self.target.engine.name} has no page that is known"
            return MODELS_INTERVAL_S
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
            async with self._response_to(self._page_client, self.target.page_path, TEXT) as response:
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
            self._models_due_at = at
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
            async with self._response_to(self._client, "/v1/models", "application/json") as response:
                if response.status == 200:
                    listed = await self._read(functools.partial(engines.read_models, response.body))
                    self.observation.list_models(listed.names, at, listed.adapters)


def _end(pause: asyncio.Future[None]) -> None:
    if not pause.done():
        pause.set_result(None)
