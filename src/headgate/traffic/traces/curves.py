"""Rate curves: how a rate changes over a day or a week, applied to any traffic.

The format is that of rates derived from ServeGen's data: CSV with `start_s` and `requests_per_s`, one line
per interval, which lasts until the next one begins; the last is as long as the one before it.
"""

from __future__ import annotations

import csv
import itertools
import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence

import msgspec

from headgate.traffic.traces.lines import (
    MAX_LINE_BYTES,
    MAX_PROBLEMS,
    LineError,
    Problem,
    TraceError,
    shown,
)
from headgate.traffic.traces.timed import TimedRequest

HEADING = ("start_s", "requests_per_s")
MAX_INTERVALS = 1_000_000


class RateCurve(msgspec.Struct, frozen=True):
    """A rate for each interval; `starts_s` has one more entry, the end of the last."""

    starts_s: tuple[float, ...]
    rates_per_s: tuple[float, ...]


def read_curve(file: str, lines: Iterable[bytes]) -> RateCurve:
    """Parse a curve; raises TraceError with the invalid lines. Lines come in pieces, as for `requests`."""
    problems: list[Problem] = []
    starts: list[float] = []
    rates: list[float] = []
    for number, line in enumerate(lines, 1):
        try:
            if number == 1:
                _check_heading(line)
            elif line.strip():
                start, rate = _interval(line, starts[-1] if starts else -math.inf, len(starts))
                starts.append(start)
                rates.append(rate)
        except LineError as error:
            problems.append(Problem(file, number, str(error), error.field, error.fix))
            if len(problems) == MAX_PROBLEMS or not starts:
                raise TraceError(problems, more=len(problems) == MAX_PROBLEMS) from None
    if not problems and (len(starts) < 2 or not any(rates)):
        problems.append(Problem(file, 1, "a curve has at least two intervals, and requests in one of them"))
    if problems:
        raise TraceError(problems)
    return RateCurve((*starts, 2 * starts[-1] - starts[-2]), tuple(rates))


def follow(requests: Sequence[TimedRequest], curve: RateCurve) -> list[TimedRequest]:
    """The same requests over the same duration, distributed as the curve says.

    The whole curve is scaled to the time from the first request to the last. Irregularities remain: only the
    course of the rate changes.
    """
    if not requests:
        return []
    first_s, span_s = requests[0].at_s, requests[-1].at_s - requests[0].at_s
    widths = [later - earlier for earlier, later in itertools.pairwise(curve.starts_s)]
    each = (rate * width for rate, width in zip(curve.rates_per_s, widths, strict=True))
    due = [0.0, *itertools.accumulate(each)]
    lasts_s = curve.starts_s[-1] - curve.starts_s[0]

    def moved(at_s: float) -> float:
        """The time by which the curve has the same share of its requests as the trace had by `at_s`."""
        wanted = due[-1] * (at_s - first_s) / span_s if span_s else 0.0
        interval = min(bisect_right(due, wanted), len(widths)) - 1
        while not curve.rates_per_s[interval]:  # at the very end, the curve may be at 0
            interval -= 1
        within_s = min((wanted - due[interval]) / curve.rates_per_s[interval], widths[interval])
        return first_s + (curve.starts_s[interval] + within_s - curve.starts_s[0]) / lasts_s * span_s

    return [msgspec.structs.replace(request, at_s=moved(request.at_s)) for request in requests]


def _check_heading(line: bytes) -> None:
    names = [cell.strip() for cell in line[:100].decode("utf-8-sig", "replace").split(",")]
    if tuple(names) != HEADING:
        raise LineError(f"the heading is {shown(','.join(names))}", fix=f"it is {','.join(HEADING)}")


def _interval(line: bytes, after_s: float, count: int) -> tuple[float, float]:
    if len(line) > MAX_LINE_BYTES or count >= MAX_INTERVALS:
        raise LineError(f"there are more than {MAX_INTERVALS} intervals, or a line without an end")
    try:
        cells = next(csv.reader([line.decode()], strict=True))
        start, rate = (float(cell) for cell in cells)
    except (UnicodeDecodeError, csv.Error, ValueError):
        text = line[:100].decode("utf-8", "replace").strip()
        raise LineError(f"{shown(text)} is not two numbers", fix=f"a line is {','.join(HEADING)}") from None
    if not (math.isfinite(start) and start > after_s):
        raise LineError(f"{start:g} does not come after the line above", field="start_s")
    if not (math.isfinite(rate) and rate >= 0):
        raise LineError(f"{rate:g} is not a rate, at least 0", field="requests_per_s")
    return start, rate
