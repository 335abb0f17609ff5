"""Measure an engine: at each batch size, as many streams as that, each followed by another.

The streams of a batch begin at random, spread over the time of a request, and their lengths vary, so that
prefills meet the decoding of others, and each other, as under any load. Requests that began while the batch
was not yet full do not count.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from headgate import engines
from headgate.cli.profile.streaming import Sample, complete, prompt
from headgate.loadtest import HttpError, Server
from headgate.loadtest.probing import WARM_UP_S

__all__ = ["Cell", "Measured", "Plan", "Reading", "batches", "measure"]

LEVELS: Final = 6
"""Batch sizes to measure, at most."""
FEWEST: Final = 8
"""Requests to count at each batch size, or one for each stream if that is more."""
READ_S: Final = 0.25
"""Between two reads of the metrics page."""
FEWEST_READINGS: Final = 3
_FULL: Final = 0.9
"""Share of the requests sent. A few that wait have just come."""
ANSWER_S: Final = 10.0
"""For metrics pages."""
_TICK_S: Final = 0.02
_VARIATION: Final = 0.25
"""Share by which a response may be shorter or longer."""


class Plan(NamedTuple):
    """What to measure."""

    batches: Sequence[int]
    prompt_tokens: Sequence[int]
    output_tokens: int
    time_limit_s: float
    seed: int | None = None
    """Of the prompts; by default they differ each time."""


class Reading(NamedTuple):
    """The load of the engine by its own metrics page."""

    running: int
    waiting: int


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """The requests that were counted at one batch size and prompt length."""

    batch: int
    samples: tuple[Sample, ...]
    readings: tuple[Reading, ...] = ()
    late_s: float = 0.0
    """By how much this process was late on average: its own load, not that of the engine."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    cells: tuple[Cell, ...]
    is_complete: bool
    """Whether the time sufficed."""
    has_metrics: bool


Report = Callable[[int, int, bool, str], None]
"""Gets batch size, prompt tokens, whether they are over, and what happens or came out."""


def batches(most: int) -> list[int]:
    """Batch sizes up to `most`, about evenly spaced by their logarithms."""
    found = {round(most ** (level / (LEVELS - 1))) for level in range(LEVELS)}
    return sorted(found)


async def measure(server: Server, model: str, plan: Plan, report: Report) -> Measured:
    """Measure until all is done or the time is up. Raises HttpError."""
    end_s = time.perf_counter() + plan.time_limit_s
    rng = random.Random(plan.seed)  # noqa: S311
    words_per_token, request_s = await _warm_up(server, model, plan, rng)
    has_metrics = await _reading(server) is not None
    wanted = [(batch, tokens) for batch in plan.batches for tokens in plan.prompt_tokens]
    cells = list[Cell]()
    for index, (batch, tokens) in enumerate(wanted):
        left_s = end_s - time.perf_counter()
        if left_s <= 0:
            break
        words = max(round(tokens * words_per_token), 1)
        ask = _Ask(server, model, words, plan.output_tokens, rng)
        bench = _Bench(ask, batch, request_s, partial(report, batch, tokens, False))
        # Later ones may use what earlier ones leave, and larger batches take longer.
        cell = await bench.run(min(left_s, 3 * left_s / (len(wanted) - index)), has_metrics)
        if cell is None:
            break
        cells.append(cell)
        request_s = max(each.ended_s - each.began_s for each in cell.samples)
        report(batch, tokens, True, _told(cell))
        if is_full(cell):
            break
    return Measured(
        model=model,
        cells=tuple(cells),
        is_complete=len(cells) == len(wanted) or bool(cells and is_full(cells[-1])),
        has_metrics=has_metrics,
    )


def is_full(cell: Cell) -> bool:
    """Whether requests waited for others to end: the engine ran fewer, and nearly always as many."""
    running = max((each.running for each in cell.readings), default=cell.batch)
    if running > _FULL * cell.batch:
        return False
    full = sum(each.waiting > 0 and each.running == running for each in cell.readings)
    return 2 * full > len(cell.readings)


def _told(cell: Cell) -> str:
    ttft_s = sum(each.ttft_s for each in cell.samples) / len(cell.samples)
    itl_s = sum(each.itl_s for each in cell.samples) / len(cell.samples)
    return f"TTFT {1000 * ttft_s:.0f} ms, ITL {1000 * itl_s:.1f} ms, {len(cell.samples)} requests"


async def _warm_up(server: Server, model: str, plan: Plan, rng: random.Random) -> tuple[float, float]:
    """Send a request of each length; returns the words of a token, and the seconds of the last request.

    Raises HttpError.
    """
    words, tokens, request_s = 0, 0, 0.0
    try:
        async with asyncio.timeout(max(WARM_UP_S, plan.time_limit_s)):
            for length in plan.prompt_tokens:
                sample = await complete(server, model, prompt(length, rng), plan.output_tokens)
                words += length
                tokens += sample.prompt_tokens
                request_s = sample.ended_s - sample.began_s
    except TimeoutError:
        raise HttpError("no response to the first requests in time") from None
    return words / max(tokens, 1), request_s


async def _reading(server: Server) -> Reading | None:
    """The load by the metrics page; None without one of a known format."""
    try:
        page = await server.get("/metrics", ANSWER_S)
    except HttpError:
        return None
    if page.status != 200:
        return None
    for engine in engines.KNOWN:
        if engine.metrics is not None:
            try:
                figures = engines.read(page.body, engine.metrics)
            except engines.PageTooLargeError:
                return None
            if figures.running is not None and figures.waiting is not None:
                return Reading(figures.running, figures.waiting)
    return None


class _Ask(NamedTuple):
    """Makes requests of one kind."""

    server: Server
    model: str
    words: int
    output_tokens: int
    rng: random.Random

    async def once(self) -> Sample:
        text = prompt(self.words, self.rng)
        length = self.output_tokens * self.rng.uniform(1 - _VARIATION, 1 + _VARIATION)
        return await complete(self.server, self.model, text, round(length))


class _Bench:
    """One batch size and prompt length."""

    def __init__(self, ask: _Ask, batch: int, request_s: float, report: Callable[[str], None]) -> None:
        """`request_s` is about how long a request takes."""
        self._ask = ask
        self._batch = batch
        self._spread_s = request_s
        self._report = report
        self._begun = 0
        self._settled_s = float("inf")
        self._samples: list[Sample] = []
        self._readings: list[Reading] = []
        self._late_s: list[float] = []
        self._is_done = asyncio.Event()
        self._fewest_readings = 0

    async def run(self, limit_s: float, has_metrics: bool) -> Cell | None:
        """Measure until enough requests were counted or the time is up; None if none was.

        Raises HttpError.
        """
        starts_s = [self._ask.rng.uniform(0, self._spread_s) for _ in range(self._batch)]
        tasks = [asyncio.create_task(self._stream(start_s)) for start_s in starts_s]
        tasks.append(asyncio.create_task(self._tick()))
        if has_metrics:
            self._fewest_readings = FEWEST_READINGS
            tasks.append(asyncio.create_task(self._read()))
        done = asyncio.create_task(self._is_done.wait())
        try:
            await asyncio.wait([*tasks, done], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            for failed in (each for each in tasks if each.done()):
                failed.result()
        finally:
            await _cancel([*tasks, done])
        if not self._samples:
            return None
        late_s = sum(self._late_s) / len(self._late_s) if self._late_s else 0.0
        return Cell(
            batch=self._batch,
            samples=tuple(self._samples),
            readings=tuple(self._readings),
            late_s=late_s,
        )

    async def _stream(self, start_s: float) -> None:
        await asyncio.sleep(start_s)
        self._begun += 1
        if self._begun == self._batch:
            self._settled_s = time.perf_counter()
        while True:
            sample = await self._ask.once()
            if sample.began_s >= self._settled_s:
                self._samples.append(sample)
                wanted = max(FEWEST, self._batch)
                self._report(f"{len(self._samples)} of {wanted} requests")
                if len(self._samples) >= wanted and len(self._readings) >= self._fewest_readings:
                    self._is_done.set()

    async def _tick(self) -> None:
        while True:
            began_s = time.perf_counter()
            await asyncio.sleep(_TICK_S)
            self._late_s.append(time.perf_counter() - began_s - _TICK_S)

    async def _read(self) -> None:
        while True:
            await asyncio.sleep(READ_S)
            reading = await _reading(self._ask.server)
            if reading is not None and time.perf_counter() >= self._settled_s:
                self._readings.append(reading)


async def _cancel(tasks: Iterable[asyncio.Task[object]]) -> None:
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
