"""Follows what gateways know of the load of each pool, for autoscaling.

    signals = Signals()
    signals.use(["http://10.0.0.7:9090", "http://10.0.0.8:9090"])  # the metrics ports of all gateways
    signals.on_starved = wake                     # called with the ObjectRef of a pool, within milliseconds
    signals.on_risen = look                       # called with that of a pool which has much more work
    task = tasks.create_task(signals.run())       # until cancelled; keeps connecting

    load = signals.of(ObjectRef("ModelServer", "default", "llama"))
    load.metrics["headgate:work_seconds"]         # sum over all gateways; missing if it is unknown
    load.idle_s                                   # None while there are requests, or if it is unknown
    load.is_known                                 # whether every gateway has told; if not, `missing` says why

A gateway that should answer and does not makes everything unknown that its requests would change: nothing is
ever taken for idle because nobody told. Only requests that wait for an endpoint are told by any one gateway.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final

import httpx2
import msgspec

from headgate import admin_token, http_clients
from headgate.api import ObjectRef
from headgate.api.signal_names import MEANS
from headgate.requests.pool_signals import Page, PoolSignals, merged
from headgate.requests.stream_times import Times

log = logging.getLogger(__name__)

PATH: Final = "/signals"
CONNECT_S: Final = 2.0
SILENCE_S: Final = 4.0
"""A gateway sends a line every second, or two if a worker does not respond. One that sends none for this long
is connected to again."""
STALE_S: Final = 5.0
"""A complete line counts for this long, so that a gateway may restart a worker or be upgraded."""
FIRST_DELAY_S: Final = 0.2
LONGEST_DELAY_S: Final = 2.0
"""Pauses between attempts to connect."""
MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""Of one line: 40,000 pools."""
MAX_PROBLEM_CHARACTERS: Final = 200

RISEN: Final = 1.2
RISEN_S: Final = 0.2
"""Work has risen if it is larger by this factor, and by so many seconds of a replica per second."""

_NONE: Final[Mapping[str, float]] = MappingProxyType({})


class PoolLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The load of one pool, over all gateways."""

    is_known: bool
    """Whether all gateways have told of it."""
    metrics: Mapping[str, float] = _NONE
    """Values by the names of `signal_names.METRICS`, without those that nobody can measure; empty unless
    `is_known`."""
    times: Times = Times()
    """What `headgate:ttft_seconds` and `headgate:itl_seconds` are the means of; empty unless `is_known`."""
    lower_bounds: Mapping[str, float] = _NONE
    """The sums over the gateways that have told: with the others, they can only be more."""
    idle_s: float | None = None
    """How long no gateway has had a request; None if one has, or may have."""
    unbegun_tokens: float = 0.0
    """Of prompts that endpoints are expected not to have begun; 0 unless `is_known`."""
    prompt_squares: float = 0.0
    """Of their uncached tokens, as in the signals of a pool; 0 unless `is_known`."""
    waiting_for_endpoints: int = 0
    """Requests that wait at any gateway because the pool has no ready endpoint."""
    endpoints: int | None = None
    """Ready endpoints that generate responses; None if no gateway knows."""
    model: str = ""
    """The served model's name; empty if requests keep theirs, or if no gateway knows."""
    missing: tuple[str, ...] = ()
    """Which gateways are missing, and why."""


class Signals:
    """Follows any number of gateways at the same time. See the module for how to use it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.on_starved: Callable[[ObjectRef], object] = lambda pool: None
        """Called when requests begin to wait for an endpoint of a pool; more than once if several gateways
        have such requests."""
        self.on_risen: Callable[[ObjectRef], object] = lambda pool: None
        """Called when a line of any gateway has much more work of a pool than the one before."""
        self._clock = clock
        self._gateways: dict[str, Gateway] = {}
        self._tasks: dict[Gateway, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    def use(self, urls: Collection[str]) -> None:
        """Follow these gateways, given by the URLs of their metrics ports, and no others."""
        wanted = dict.fromkeys(url.rstrip("/") for url in urls)
        for url in self._gateways.keys() - wanted.keys():
            del self._gateways[url]
        for url in wanted:
            if url not in self._gateways:
                self._gateways[url] = Gateway(url, self._clock, self._starved, self._risen)
        self._changed.set()

    @property
    def urls(self) -> tuple[str, ...]:
        """The gateways that are followed."""
        return tuple(self._gateways)

    async def run(self) -> None:
        """Follow the gateways until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            try:
                while True:
                    self._changed.clear()
                    wanted = set(self._gateways.values())
                    for gateway in self._tasks.keys() - wanted:
                        self._tasks.pop(gateway).cancel()
                    for gateway in wanted - self._tasks.keys():
                        self._tasks[gateway] = tasks.create_task(gateway.follow())
                    await self._changed.wait()
            finally:
                for task in self._tasks.values():
                    task.cancel()
                self._tasks.clear()

    def of(self, pool: ObjectRef) -> PoolLoad:
        """The load of a pool now."""
        now = self._clock()
        gateways = self._gateways.values()
        missing = tuple(f"{each.url}: {each.problem}" for each in gateways if not each.is_known(now))
        known = [told for each in gateways if (told := each.of(pool, now)) is not None]
        waiting = sum(each.starved.get(pool, 0) for each in gateways)
        if not self._gateways:
            missing = (
                "no gateway is known: name all to the controller, with --gateway or --gateway-service",
            )
        elif not known and not missing:
            missing = ("no gateway knows the pool",)
        if not known:
            return PoolLoad(is_known=False, waiting_for_endpoints=waiting, missing=missing)
        total = merged(known)
        metrics = _metrics(total)
        return PoolLoad(
            is_known=not missing,
            metrics=_NONE if missing else metrics,
            unbegun_tokens=0.0 if missing else total.unbegun_tokens,
            prompt_squares=0.0 if missing else total.prompt_squares,
            times=Times() if missing else total.times,
            lower_bounds={name: value for name, value in metrics.items() if name not in MEANS},
            idle_s=None if missing else total.idle_s,
            waiting_for_endpoints=waiting,
            endpoints=total.endpoints,
            model=total.model,
            missing=missing,
        )

    def starved(self) -> set[ObjectRef]:
        """The pools without an endpoint for which requests wait at any gateway."""
        return {pool for gateway in self._gateways.values() for pool in gateway.starved}

    def pools(self) -> set[ObjectRef]:
        """The pools that any gateway knows."""
        now = self._clock()
        return {pool for gateway in self._gateways.values() for pool in gateway.pools(now)}

    def statistics(self) -> dict[str, int]:
        now = self._clock()
        known = sum(gateway.is_known(now) for gateway in self._gateways.values())
        return {"gateways": len(self._gateways), "gateways_known": known}

    def _starved(self, pool: ObjectRef) -> None:
        try:
            self.on_starved(pool)
        except Exception:
            log.exception("a request waits for an endpoint of %s", pool)

    def _risen(self, pool: ObjectRef) -> None:
        try:
            self.on_risen(pool)
        except Exception:
            log.exception("the work of %s has risen", pool)


def _metrics(load: PoolSignals) -> dict[str, float]:
    found: dict[str, float] = {
        "headgate:requests_running": load.requests_running,
        "headgate:requests_waiting": load.requests_waiting,
        "headgate:requests_in_flight": load.requests_running + load.requests_waiting,
        "headgate:arrivals": load.arrivals,
        "headgate:prompt_tokens": load.prompt_tokens,
        "headgate:cached_tokens": load.cached_tokens,
        "headgate:output_tokens": load.output_tokens,
        "headgate:work_seconds": load.work_seconds,
    }
    if load.kv_usage is not None:
        found["headgate:kv_usage"] = load.kv_usage
    if load.slo_requests:
        found["headgate:slo_misses"] = load.slo_misses / load.slo_requests
    if load.timed_requests:
        found["headgate:ttft_seconds"] = load.ttft_sum_s / load.timed_requests
    if load.timed_tokens:
        found["headgate:itl_seconds"] = load.tokens_sum_s / load.timed_tokens
    return found


class Gateway:
    """What one gateway has told."""

    def __init__(
        self,
        url: str,
        clock: Callable[[], float],
        on_starved: Callable[[ObjectRef], object],
        on_risen: Callable[[ObjectRef], object],
    ) -> None:
        self.problem = "it has not answered yet"
        """Why it is not known."""
        self.starved: dict[ObjectRef, int] = {}
        """Requests that wait for an endpoint, by pool, by the latest line."""
        self.url = url
        self._clock = clock
        self._on_starved = on_starved
        self._on_risen = on_risen
        self._told_at: float | None = None
        self._pools: dict[ObjectRef, PoolSignals] = {}
        """By the latest complete line."""

    def is_known(self, now: float) -> bool:
        return self._told_at is not None and now - self._told_at <= STALE_S

    def of(self, pool: ObjectRef, now: float) -> PoolSignals | None:
        """What it knows of a pool; None if it is silent or does not know the pool."""
        return self._pools.get(pool) if self.is_known(now) else None

    def pools(self, now: float) -> Collection[ObjectRef]:
        return self._pools.keys() if self.is_known(now) else ()

    async def follow(self) -> None:
        """Read its lines until cancelled."""
        delay_s = FIRST_DELAY_S
        while True:
            began = self._clock()
            try:
                await self._watch()
                self.problem = "it closed the connection"
            except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
                self.problem = (str(error) or type(error).__name__)[:MAX_PROBLEM_CHARACTERS]
            except Exception:
                log.exception("reading the signals of %s", self.url)
                self.problem = "its signals could not be read: see the log"
            self.starved = {}
            if self._told_at is not None and self._told_at >= began:
                delay_s = FIRST_DELAY_S
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, LONGEST_DELAY_S)

    async def _watch(self) -> None:
        timeout = httpx2.Timeout(SILENCE_S, connect=CONNECT_S)
        async with (
            httpx2.AsyncClient(transport=http_clients.transport(), timeout=timeout) as client,
            client.stream(
                "GET",
                f"{self.url}{PATH}",
                params={"watch": "1"},
                headers={"accept-encoding": "identity"} | admin_token.headers(),
            ) as response,
        ):
            if response.status_code != 200:
                raise ValueError(f"it answers {response.status_code} to GET {PATH}")
            try:
                await _lines(response, self._take)
            except TimeoutError:
                raise ValueError(f"it sent no whole line within {2 * SILENCE_S:g} s") from None

    def _take(self, line: bytes) -> None:
        try:
            page = msgspec.json.decode(line, type=Page)
        except msgspec.MsgspecError as error:
            raise ValueError(f"it sends a line that is no page of signals: {error}") from error
        pools = {ObjectRef(each.kind, each.namespace, each.name): each for each in page.pools}
        risen: list[ObjectRef] = []
        if page.is_complete:
            risen = [pool for pool, each in pools.items() if _has_risen(self._pools.get(pool), each)]
            self._told_at = self._clock()
            self._pools = pools
            self.problem = "it has sent nothing for a while"
        else:
            self.problem = "; ".join(page.no_answer)[:MAX_PROBLEM_CHARACTERS] or "it is not ready"
        before = self.starved
        self.starved = {
            pool: each.waiting_for_endpoints for pool, each in pools.items() if each.waiting_for_endpoints
        }
        for pool in self.starved.keys() - before.keys():
            self._on_starved(pool)
        for pool in risen:
            self._on_risen(pool)


def _has_risen(before: PoolSignals | None, now: PoolSignals) -> bool:
    work_s = before.work_seconds if before is not None else 0.0
    return now.work_seconds > RISEN * work_s and now.work_seconds - work_s > RISEN_S


async def _lines(response: httpx2.Response, take: Callable[[bytes], None]) -> None:
    """Pass each line of a response on; raises ValueError for a line that is too long, and TimeoutError for
    one that takes too long."""
    pieces: list[bytes] = []
    size, loop = 0, asyncio.get_running_loop()
    async with asyncio.timeout(2 * SILENCE_S) as limit:
        async for piece in response.aiter_raw():
            *whole, rest = piece.split(b"\n")
            for line in whole:
                take(b"".join((*pieces, line)))
                pieces, size = [], 0
                limit.reschedule(loop.time() + 2 * SILENCE_S)
            pieces.append(rest)
            size += len(rest)
            if size > MAX_LINE_BYTES:
                raise ValueError(f"it sends a line of more than {MAX_LINE_BYTES} bytes")
