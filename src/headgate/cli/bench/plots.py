"""Draw load tests as PNG. Needs matplotlib, installed by headgate[plots]."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from headgate.cli.bench.tables import NAMES
from headgate.cli.simulate.plots import STYLE, line_style, plain_numbers
from headgate.loadtest import Histogram, Measured

_SIZE = (11.0, 7.0)
_DPI = 110
_LEAST_MS = 0.1
"""Of logarithmic axes: tokens that arrive together have no time between them."""
_PERCENTILES = ((0.5, 0.9), (0.99, 0.45))
"""Shares, each with the opacity of its line."""


def prepare() -> None:
    """Raises a usage error that names the package to install."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise click.UsageError("--png needs matplotlib: pip install 'headgate[plots]'") from None


def draw(file: Path, runs: Sequence[Measured]) -> None:
    """TTFT and ITL over time, and their distributions, of each run. Raises OSError."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    with mpl.rc_context(STYLE):
        figure, axes = pyplot.subplots(2, 2, figsize=_SIZE, layout="constrained")
        pyplot.close(figure)  # the figure is saved later: pyplot must not keep a reference
        labels = _labels(runs)
        shown = (f"{label} ({run.model})" for label, run in zip(labels, runs, strict=True))
        figure.suptitle("; ".join(shown), x=0.01, ha="left")
        objective_s = runs[0].tally.slo.ttft_s
        for row, (name, kind) in enumerate((("TTFT", "ttft"), ("ITL", "itl"))):
            for place, (run, label) in enumerate(zip(runs, labels, strict=True)):
                _over_time(axes[row][0], run, kind, label, place)
                _distribution(axes[row][1], getattr(run.tally, kind), label, place)
            _finish(axes[row], name, "requests" if kind == "ttft" else "pauses between tokens")
        if objective_s is not None:
            for axes_of_times, line in ((axes[0][0], "axhline"), (axes[0][1], "axvline")):
                told = f"objective: {1000 * objective_s:g} ms"
                getattr(axes_of_times, line)(1000 * objective_s, color="black", linestyle=":", label=told)
        for each in axes[0]:
            if each.lines:
                each.legend(loc="best", fontsize=8)
        figure.savefig(file, dpi=_DPI, format="png", metadata={"Software": "headgate"})


def _labels(runs: Sequence[Measured]) -> list[str]:
    """What distinguishes runs, which may be of the same server."""
    if len(runs) < 2:
        return [run.url for run in runs]
    return [f"{name}: {run.url}" for name, run in zip(NAMES, runs, strict=True)]


def _over_time(axes: Any, run: Measured, kind: str, label: str, place: int) -> None:
    windows = run.tally.windows
    style = line_style(place)
    for share, opacity in _PERCENTILES:
        points = [
            ((number + 0.5) * windows.width_s, 1000 * times.percentile(share))
            for number, part in enumerate(windows.parts)
            if (times := getattr(part, kind)).count
        ]
        told = f"{label}, p{100 * share:.0f}"
        axes.plot(*zip(*points, strict=True), alpha=opacity, label=told, **style) if points else None


def _distribution(axes: Any, times: Histogram, label: str, place: int) -> None:
    if times.count:
        found = times.steps()
        xs = [max(1000 * each, _LEAST_MS) for each, _ in found]
        axes.step(xs, [share for _, share in found], where="post", label=label, **line_style(place))


def _finish(row: Any, name: str, counted: str) -> None:
    row[0].set(title=f"{name} by the time at which requests were due", xlabel="seconds", ylabel="ms")
    row[0].set_ylim(bottom=0)
    title = f"{name}: share of {counted} within a time"
    row[1].set(title=title, xlabel="ms", ylabel=f"share of {counted}", ylim=(0, 1.02))
    if row[1].lines:
        row[1].set_xscale("log")
        plain_numbers(row[1].xaxis, *row[1].get_xlim())
