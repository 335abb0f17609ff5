"""Plots of runs, as PNG to look at and SVG to publish. Needs matplotlib, installed by headgate[plots]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.cli.simulate.results import Drawn
from headgate.simulator.fleet import Slo

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_SIZE = (8.0, 4.5)
_DPI = 120
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")
"""The Okabe-Ito palette, which color-blind readers can distinguish."""
_DASHES = ("-", "--", ":", "-.")
_MAX_ENDPOINTS_NAMED = 16
_FEWEST_OF_A_LINE = 10
STYLE: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "svg.hashsalt": "headgate",  # otherwise IDs inside an SVG are random
}


def prepare(directory: Path) -> None:
    """Create the directory; raises a usage error that names the package to install, or OSError."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise click.UsageError("--plots needs matplotlib: pip install 'headgate[plots]'") from None
    directory.mkdir(parents=True, exist_ok=True)


def write(directory: Path, runs: Sequence[Drawn], slo: Slo) -> list[Path]:
    """Draw all plots into a directory; returns the files. Raises OSError."""
    import matplotlib as mpl

    mpl.use("agg")
    written: list[Path] = []
    with mpl.rc_context(STYLE):
        for name, draw in _plots(runs, slo).items():
            figure = draw()
            for suffix in ("png", "svg"):
                path = directory / f"{name}.{suffix}"
                # Without the date, equal runs produce equal files.
                metadata: dict[str, Any] = {"Date": None} if suffix == "svg" else {"Software": "headgate"}
                figure.savefig(path, dpi=_DPI, metadata=metadata)
                figure.set_layout_engine("none")  # the layout of one format does not fit the other
                written.append(path)
    return written


def _plots(runs: Sequence[Drawn], slo: Slo) -> dict[str, Callable[[], Figure]]:
    return {
        "ttft-cdf": lambda: _ttft_cdf(runs, slo),
        "ttft-over-time": lambda: _ttft_over_time(runs, slo),
        "hit-rate-over-time": lambda: _hit_rate_over_time(runs),
        "load-per-endpoint": lambda: _load_per_endpoint(runs),
    }


def _figure(title: str, **given: Any) -> tuple[Figure, Any]:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=given.pop("size", _SIZE), layout="constrained", **given)
    figure.suptitle(title, x=0.01, ha="left")
    pyplot.close(figure)  # the figure is saved later: pyplot must not keep a reference
    return figure, axes


def line_style(index: int) -> dict[str, str]:
    return {
        "color": _COLORS[index % len(_COLORS)],
        "linestyle": _DASHES[index // len(_COLORS) % len(_DASHES)],
    }


def _ttft_cdf(runs: Sequence[Drawn], slo: Slo) -> Figure:
    figure, axes = _figure("Time to first token: share of requests that have it by then")
    for index, drawn in enumerate(runs):
        times = sorted(each.ttft_s for each in drawn.records if each.ttft_s is not None)
        # Shares of all requests: a rejected one never gets a first token.
        shares = [(n + 1) / len(drawn.records) for n in range(len(times))]
        axes.step(times, shares, where="post", label=drawn.label, **line_style(index))
    _mark_slo(axes, slo, vertical=True)
    axes.set(xscale="log", xlabel="seconds after arrival", ylabel="share of requests", ylim=(0, 1.02))
    plain_numbers(axes.xaxis, *axes.get_xlim())
    axes.legend(loc="lower right")
    return figure


def _ttft_over_time(runs: Sequence[Drawn], slo: Slo) -> Figure:
    figure, axes = _figure("Time to first token by time of arrival: p90, and p50 (thin)")
    for index, drawn in enumerate(runs):
        series = drawn.run.series
        style = line_style(index)
        _curve(axes, series.window_s, series.ttft_p90_s, label=drawn.label, **style)
        _curve(axes, series.window_s, series.ttft_p50_s, linewidth=0.8, alpha=0.7, **style)
    _mark_slo(axes, slo, vertical=False)
    axes.set(yscale="log", xlabel="simulated seconds", ylabel="seconds to first token")
    plain_numbers(axes.yaxis, *axes.get_ylim())
    axes.legend(loc="best")
    return figure


def _hit_rate_over_time(runs: Sequence[Drawn]) -> Figure:
    figure, axes = _figure("Hit rate by time of arrival: cached share of prompt tokens")
    for index, drawn in enumerate(runs):
        series = drawn.run.series
        _curve(axes, series.window_s, series.hit_rate, label=drawn.label, **line_style(index))
    axes.set(xlabel="simulated seconds", ylabel="cached share", ylim=(-0.02, 1.02))
    axes.legend(loc="best")
    return figure


def _load_per_endpoint(runs: Sequence[Drawn]) -> Figure:
    """A heat map for each run: dark where an endpoint had many requests; even if the fleet is balanced."""
    names = list(runs[0].run.series.in_flight)
    height = 1.0 + len(runs) * max(1.4, min(0.22 * len(names), 3.0))
    figure, rows = _figure(
        "Requests in flight per endpoint",
        size=(_SIZE[0], height),
        nrows=len(runs),
        sharex=True,
        squeeze=False,
    )
    most = max(max(row) for drawn in runs for row in drawn.run.series.in_flight.values())
    for drawn, (axes,) in zip(runs, rows, strict=True):
        series = drawn.run.series
        ends_s = series.window_s * len(series.hit_rate)
        image = axes.imshow(
            list(series.in_flight.values()),
            aspect="auto",
            interpolation="nearest",
            cmap="viridis",
            vmin=0,
            vmax=most or 1.0,
            extent=(0, ends_s, len(names) - 0.5, -0.5),
        )
        axes.grid(visible=False)
        axes.set_title(drawn.label, loc="left", fontsize=10)
        axes.set_yticks(range(len(names)) if len(names) <= _MAX_ENDPOINTS_NAMED else [0, len(names) - 1])
        axes.set_yticklabels(names if len(names) <= _MAX_ENDPOINTS_NAMED else [names[0], names[-1]])
        axes.tick_params(axis="y", labelsize=7)
    rows[-1][0].set_xlabel("simulated seconds")
    figure.colorbar(image, ax=list(rows[:, 0]), label="requests in flight")
    return figure


def _curve(axes: Axes, window_s: float, values: Sequence[float | None], **style: Any) -> None:
    """A line through the midpoints of windows that have a value; dots if they are too few."""
    points = [((n + 0.5) * window_s, value) for n, value in enumerate(values) if value is not None]
    marker = "o" if len(points) < _FEWEST_OF_A_LINE else ""
    axes.plot([at for at, _ in points], [value for _, value in points], marker=marker, **style)


def plain_numbers(axis: Axis, least: float, most: float) -> None:
    """Numbers without exponents on a logarithmic axis; minor labels only where they fit."""
    from matplotlib.ticker import NullFormatter

    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("{x:g}" if most < 20 * least else NullFormatter())


def _mark_slo(axes: Axes, slo: Slo, *, vertical: bool) -> None:
    mark = axes.axvline if vertical else axes.axhline
    mark(
        slo.ttft_s,
        color="#666666",
        linewidth=0.8,
        linestyle=(0, (4, 3)),
        label=f"objective: {slo.ttft_s:g} s",
    )
