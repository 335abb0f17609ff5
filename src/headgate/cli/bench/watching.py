"""Show a running load test on a terminal, twice a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headgate.loadtest import Histogram, Measured, State


class Watch:
    """A line with what was sent, what came back, and the times so far; nothing without a terminal."""

    def __init__(self) -> None:
        self._run: Measured | None = None
        self._state: Callable[[], State] = State
        self._began_s = 0.0
        console = Console(stderr=True)
        self._live = (
            Live(get_renderable=self._table, console=console, refresh_per_second=2, transient=True)
            if console.is_terminal
            else None
        )

    def __enter__(self) -> Watch:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def follow(self, run: Measured) -> None:
        """Show this run from now on."""
        self._run, self._state = run, State

    def begin(self, state: Callable[[], State]) -> None:
        """It has begun."""
        self._state, self._began_s = state, time.perf_counter()

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        if self._run is None:
            table.add_row(Text("connecting ...", style="dim"))
            return table
        run, state = self._run, self._state()
        elapsed_s = max(time.perf_counter() - self._began_s, 1e-9)
        table.add_row(
            Text(run.url, style="bold"),
            f"{elapsed_s:.0f} s",
            f"{run.tally.requests + state.requests} of {run.planned}",
            f"{state.in_flight} in flight",
            f"{run.tally.failed + state.failed} failed",
            f"{state.output_tokens / elapsed_s:.0f} tokens/s",
            f"TTFT p50 {_ms(state.ttft, 0.5)} p99 {_ms(state.ttft, 0.99)}",
            f"client {100 * state.cpu_share:.0f}% CPU",
        )
        return table


def _ms(times: Histogram, share: float) -> str:
    return f"{1000 * times.percentile(share):.0f} ms" if times.count else "-"
