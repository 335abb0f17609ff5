"""Print runs as a table: one row for each, split into as many blocks as the terminal width requires."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec
from rich.cells import cell_len

from headgate.cli.simulate.results import Run

_GAP = "  "
_NONE = "-"


class _Column(NamedTuple):
    group: str
    name: str
    cell: Callable[[Run], str]
    is_wide: bool = False

    @property
    def is_of_requests(self) -> bool:
        """Whether the column describes only some of the requests, as a tenant's."""
        return bool(self.group) or self.name == "reqs"


def seconds(value: float) -> str:
    """Three significant digits, without an exponent; nan is shown as "-"."""
    if math.isnan(value):
        return _NONE
    if value < 0.1:
        return f"{value:.3f}"
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def share(value: float) -> str:
    return f"{100 * value:.1f}%"


def _ms(value: float) -> str:
    if math.isnan(value):
        return _NONE
    return f"{1000 * value:.{1 if value < 0.1 else 0}f}"


def _goodput(run: Run) -> str:
    """Requests that all arrive at once have no rate."""
    return seconds(run.summary.goodput_per_s) if run.summary.arrivals_per_s else _NONE


_COLUMNS = (
    _Column("", "reqs", lambda run: str(run.summary.requests)),
    _Column("TTFT (s)", "mean", lambda run: seconds(run.summary.ttft_s.mean), True),
    _Column("TTFT (s)", "p50", lambda run: seconds(run.summary.ttft_s.p50)),
    _Column("TTFT (s)", "p90", lambda run: seconds(run.summary.ttft_s.p90)),
    _Column("TTFT (s)", "p99", lambda run: seconds(run.summary.ttft_s.p99)),
    _Column("TTFT (s)", "max", lambda run: seconds(run.summary.ttft_s.max), True),
    _Column("TPOT (ms)", "mean", lambda run: _ms(run.summary.tpot_s.mean), True),
    _Column("TPOT (ms)", "p50", lambda run: _ms(run.summary.tpot_s.p50)),
    _Column("TPOT (ms)", "p90", lambda run: _ms(run.summary.tpot_s.p90), True),
    _Column("TPOT (ms)", "p99", lambda run: _ms(run.summary.tpot_s.p99)),
    _Column("in SLO", "share", lambda run: share(run.summary.slo_share)),
    _Column("in SLO", "req/s", _goodput),
    _Column("", "hits", lambda run: share(run.summary.hit_rate)),
    _Column("", "balance", lambda run: seconds(run.summary.imbalance)),
    _Column("", "preempt", lambda run: str(run.summary.preemptions)),
    _Column("", "failed", lambda run: str(run.summary.failed)),
    _Column("", "refused", lambda run: str(run.summary.refused)),
    _Column("", "J/token", lambda run: seconds(run.summary.joules_per_output_token), True),
    _Column("", "$/M", lambda run: seconds(run.summary.dollars_per_million_output_tokens), True),
    _Column("", "sim s", lambda run: f"{run.simulated_s:.0f}"),
)
_RATE = _Column("", "rate", lambda run: seconds(run.summary.arrivals_per_s))


def lines(runs: Sequence[Run], *, wide: bool, width: int | None) -> list[str]:
    """The table; `width` is the terminal's, None for unlimited."""
    columns = [column for column in _COLUMNS if wide or not column.is_wide]
    names = ["policy", *(run.policy for run in runs)]
    blocks = _blocks([_padded(names, str.ljust), *_rates(runs, runs)], columns, runs, width)
    return [line for block in blocks for line in ("", *block)][1:]


def tenants(runs: Sequence[Run], *, wide: bool, width: int | None) -> list[str]:
    """One row for each tenant of each run, with the columns about requests; empty without tenants."""
    told = [
        (tenant, msgspec.structs.replace(run, summary=summary))
        for run in runs
        for tenant, summary in run.tenants.items()
    ]
    if not told:
        return []
    columns = [column for column in _COLUMNS if column.is_of_requests and (wide or not column.is_wide)]
    of_tenants = [run for _, run in told]
    keys = [
        _padded(["policy", *(run.policy for run in of_tenants)], str.ljust),
        _padded(["tenant", *(tenant for tenant, _ in told)], str.ljust),
        *_rates(runs, of_tenants),
    ]
    return [line for block in _blocks(keys, columns, of_tenants, width) for line in ("", *block)][1:]


def comparison(runs: Sequence[Run]) -> list[str]:
    """Differences from the first policy at the same rate, or in the rate found for each."""
    if any(run.highest_rate for run in runs):
        return _compared(runs, f"Compared with {runs[0].policy}:")
    rates = dict.fromkeys(run.summary.arrivals_per_s for run in runs)
    told: list[str] = []
    for rate in rates:
        same = [run for run in runs if run.summary.arrivals_per_s == rate]
        at_rate = f" at {seconds(rate)} req/s" if len(rates) > 1 else ""
        told += _compared(same, f"Compared with {same[0].policy}{at_rate}:")
    return told


def _compared(runs: Sequence[Run], heading: str) -> list[str]:
    first, *others = runs
    told = [heading]
    name_width = max((cell_len(run.policy) for run in others), default=0)
    for run in others:
        ours, theirs = run.summary, first.summary
        parts = [
            ("TTFT p50", _relative(ours.ttft_s.p50, theirs.ttft_s.p50)),
            ("p90", _relative(ours.ttft_s.p90, theirs.ttft_s.p90)),
            ("p99", _relative(ours.ttft_s.p99, theirs.ttft_s.p99)),
            ("TPOT p50", _relative(ours.tpot_s.p50, theirs.tpot_s.p50)),
            ("in SLO", _points(ours.slo_share, theirs.slo_share)),
            ("hits", _points(ours.hit_rate, theirs.hit_rate)),
        ]
        if run.highest_rate:
            parts.insert(0, ("rate", _relative(ours.arrivals_per_s, theirs.arrivals_per_s)))
        differences = ", ".join(f"{what} {difference}" for what, difference in parts)
        told.append(f"{_GAP}{run.policy.ljust(name_width)}{_GAP}{differences}")
    return told


def _rates(runs: Sequence[Run], rows: Sequence[Run]) -> list[list[str]]:
    """A column with the rates of the rows, if runs differ in it."""
    rates = {seconds(run.summary.arrivals_per_s) for run in runs}
    return [_cells(_RATE, rows)] if len(rates) > 1 or any(run.highest_rate for run in runs) else []


def _relative(ours: float, theirs: float) -> str:
    if math.isnan(ours) or math.isnan(theirs) or not theirs:
        return _NONE
    return f"{round(100 * (ours / theirs - 1)):+d}%"


def _points(ours: float, theirs: float) -> str:
    return f"{round(100 * (ours - theirs), 1) + 0.0:+.1f} points"


def _blocks(
    keys: list[list[str]], columns: list[_Column], runs: Sequence[Run], width: int | None
) -> list[list[str]]:
    """Columns side by side as far as they fit, then further blocks with the keys; groups stay together."""
    groups = [
        (title, [_cells(column, runs) for column in members])
        for title, members in ((title, list(found)) for title, found in groupby(columns, lambda c: c.group))
    ]
    pieces = [
        piece
        for title, cells in groups
        for piece in ([(title, cells)] if title else [("", [each]) for each in cells])
    ]
    key_width = sum(cell_len(key[0]) + len(_GAP) for key in keys)
    blocks: list[list[tuple[str, list[list[str]]]]] = [[]]
    used = key_width
    for piece in pieces:
        needs = sum(len(cells[0]) + len(_GAP) for cells in piece[1])
        if width is not None and blocks[-1] and used + needs - len(_GAP) > width:
            blocks.append([])
            used = key_width
        blocks[-1].append(piece)
        used += needs
    return [_block(keys, block) for block in blocks]


def _block(keys: list[list[str]], pieces: list[tuple[str, list[list[str]]]]) -> list[str]:
    titles = [" " * cell_len(key[0]) for key in keys]
    for title, cells in pieces:
        titles.append(title.rjust(sum(map(len, (each[0] for each in cells))) + len(_GAP) * (len(cells) - 1)))
    columns = [*keys, *(each for _, cells in pieces for each in cells)]
    rows = [_GAP.join(row).rstrip() for row in zip(*columns, strict=True)]
    heading = _GAP.join(titles).rstrip()
    return [heading, *rows] if heading else rows


def _cells(column: _Column, runs: Sequence[Run]) -> list[str]:
    """The column's name and its cells, padded to one width."""
    return _padded([column.name, *(column.cell(run) for run in runs)], str.rjust)


def _padded(cells: list[str], set_to: Callable[[str, int], str]) -> list[str]:
    width = max(map(cell_len, cells))
    return [set_to(cell, width) for cell in cells]
