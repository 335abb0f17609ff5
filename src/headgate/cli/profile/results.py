"""The four numbers from what was measured, how far they are off, and what disturbed them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

import msgspec

from headgate.cli.profile.measuring import Cell, Measured, is_full
from headgate.loadtest import HttpError
from headgate.planning.lines import Line, Point, fit

__all__ = ["Deviation", "Result", "Row", "result"]

_FEWEST_BATCHES = 2
_CACHED = 0.02
_LATE = 0.25
"""Share of ITL by which this process may be late: the same at the first token and at the last, mostly."""
_OFF = 0.25
"""Errors of the fit above this share are told with what to do."""


class Row(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One batch size and prompt length: medians of the requests, and what the fit says."""

    batch: int
    prompt_tokens: float
    requests: int
    ttft_ms: float
    predicted_ttft_ms: float
    itl_ms: float
    predicted_itl_ms: float


class Deviation(msgspec.Struct, frozen=True, kw_only=True):
    """Relative distance of the rows from the fit."""

    mean: float
    largest: float


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    url: str
    model: str
    alpha: float
    beta: float
    gamma: float
    delta: float
    max_batch_size: int
    output_tokens: int
    itl_error: Deviation
    ttft_error: Deviation
    rows: tuple[Row, ...]
    warnings: tuple[str, ...]


def result(url: str, measured: Measured, output_tokens: int) -> Result:
    """Raises HttpError if there is too little to fit."""
    cells = [cell for cell in measured.cells if not is_full(cell)]
    if len({cell.batch for cell in cells}) < _FEWEST_BATCHES:
        raise HttpError(_too_few(measured))
    tokens = [median(each.prompt_tokens for each in cell.samples) for cell in cells]
    ttft_ms = [1000 * median(each.ttft_s for each in cell.samples) for cell in cells]
    itl_ms = [1000 * median(each.itl_s for each in cell.samples) for cell in cells]
    if min(*tokens, *ttft_ms, *itl_ms) <= 0:
        raise HttpError("the engine reports no prompt tokens, or sends all tokens at once")
    decode = fit([Point(cell.batch, itl) for cell, itl in zip(cells, itl_ms, strict=True)])
    prefill = fit([Point(c.batch * size, ttft) for c, size, ttft in zip(cells, tokens, ttft_ms, strict=True)])
    rows = tuple(
        Row(
            batch=cell.batch,
            prompt_tokens=tokens[at],
            requests=len(cell.samples),
            ttft_ms=round(ttft_ms[at], 3),
            predicted_ttft_ms=round(prefill.at(cell.batch * tokens[at]), 3),
            itl_ms=round(itl_ms[at], 3),
            predicted_itl_ms=round(decode.at(cell.batch), 3),
        )
        for at, cell in enumerate(cells)
    )
    ttft_error = _deviation([(row.ttft_ms, row.predicted_ttft_ms) for row in rows])
    itl_error = _deviation([(row.itl_ms, row.predicted_itl_ms) for row in rows])
    return Result(
        url=url,
        model=measured.model,
        **_numbers(decode, prefill),
        max_batch_size=max(cell.batch for cell in cells),
        output_tokens=output_tokens,
        itl_error=itl_error,
        ttft_error=ttft_error,
        rows=rows,
        warnings=(
            *_warnings(measured, cells),
            *_misfits("ITL", itl_error),
            *_misfits("TTFT", ttft_error),
        ),
    )


def _numbers(decode: Line, prefill: Line) -> dict[str, float]:
    """Rounded to what can be measured."""
    numbers = {
        "alpha": decode.intercept,
        "beta": decode.slope,
        "gamma": prefill.intercept,
        "delta": prefill.slope,
    }
    return {name: float(f"{value:.4g}") for name, value in numbers.items()}


def _deviation(pairs: Sequence[tuple[float, float]]) -> Deviation:
    off = [abs(predicted - seen) / seen for seen, predicted in pairs]
    return Deviation(mean=round(sum(off) / len(off), 4), largest=round(max(off), 4))


def _too_few(measured: Measured) -> str:
    if measured.cells and is_full(measured.cells[-1]):
        return "requests wait at the engine at any batch size above 1: is it busy with other requests?"
    return (
        "fewer than two batch sizes were measured: raise --time-limit, or lower --max-batch, --prompt-tokens "
        "or --output-tokens"
    )


def _warnings(measured: Measured, cells: Sequence[Cell]) -> Iterator[str]:
    samples = [each for cell in measured.cells for each in cell.samples]
    cached = sum(each.cached_tokens for each in samples) / sum(each.prompt_tokens for each in samples)
    if cached > _CACHED:
        yield (
            f"{100 * cached:.0f} % of the prompt tokens came from a cache: TTFT is too low; "
            "measure without prefix caching"
        )
    if any(each.is_short for each in samples):
        yield "some responses ended early: the engine ignores ignore_eos, so that batches were not full"
    if not measured.has_metrics:
        yield "the engine has no metrics page of a known format: other requests would go unnoticed"
    last = measured.cells[-1]
    if is_full(last):
        running = max((reading.running for reading in last.readings), default=0)
        yield f"with {last.batch} requests, {running} ran and others waited: larger batches were not measured"
    elif not measured.is_complete:
        yield f"the time was up after batch size {last.batch}: a higher --time-limit measures larger ones"
    busy = [cell.batch for cell in cells if _has_others(cell)]
    if busy:
        yield f"the engine had other requests at batch size {', '.join(map(str, busy))}: repeat it without"
    late = [cell.batch for cell in cells if cell.late_s > _LATE * median(s.itl_s for s in cell.samples)]
    if late:
        yield f"this machine was too busy to measure batch size {', '.join(map(str, late))} well"


def _has_others(cell: Cell) -> bool:
    """Whether the engine had more requests than were sent, most of the time."""
    more = sum(each.running + each.waiting > cell.batch for each in cell.readings)
    return 2 * more > len(cell.readings)


def _misfits(name: str, off: Deviation) -> Iterator[str]:
    if off.largest > _OFF:
        yield (
            f"{name} is no line: up to {100 * off.largest:.0f} % off; measure one length of prompts, that of "
            "yours, up to the batch size that you expect"
        )
