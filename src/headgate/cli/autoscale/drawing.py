"""A replay as a picture. Needs matplotlib, installed by headgate[plots]."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from headgate.cli.autoscale.replaying import Run

_SIZE = (9.0, 7.0)
_DPI = 120
_WINDOWS = 240


def need_matplotlib() -> None:
    """Raises a usage error that names the package to install."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise click.UsageError("--png needs matplotlib: pip install 'headgate[plots]'") from None


def draw(run: Run, file: Path) -> None:
    """Write replicas, load and SLO over time; raises OSError."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    shown = run.windows(_WINDOWS)
    minutes = [each.begins_s / 60 for each in shown]
    style: Any = {"axes.grid": True, "axes.spines.right": False, "axes.spines.top": False, "grid.alpha": 0.3}
    with mpl.rc_context(style):
        figure, (replicas, load, slo) = pyplot.subplots(3, figsize=_SIZE, layout="constrained", sharex=True)
        pyplot.close(figure)
        figure.suptitle(f"{run.policy} on {run.source}", x=0.01, ha="left")
        replicas.fill_between(
            minutes, [each.ready for each in shown], step="post", color="#0072b2", alpha=0.5
        )
        replicas.step(minutes, [each.replicas for each in shown], where="post", color="#d55e00")
        replicas.set_ylabel("replicas")
        replicas.legend(["ready", "and starting or draining"], loc="upper right", frameon=False)
        load.plot(minutes, [each.arrivals_per_s for each in shown], color="#009e73")
        load.set_ylabel("requests per second")
        slo.plot(
            minutes,
            [None if each.attainment is None else 100 * each.attainment for each in shown],
            color="#0072b2",
        )
        slo.set(ylabel="% in time", xlabel="minutes", ylim=(-2, 102))
        figure.savefig(file, dpi=_DPI, format="png", metadata={"Software": "headgate"})
