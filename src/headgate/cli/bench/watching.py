"""Show a running load test on a terminal, twice a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from headgate.loadtest import Histogram, Measured, State


class Watch:
    """Lines with what was sent, what came back, and the times so far; nothing without a terminal."""

    def __init__(self) -> None:
        self._run: Measured | None = None
        self._state: Callable[[], State] = State
        self._began_s = 0.0
        console = Console(stderr=True)
        self._live = (
            Live(get_renderable=self._lines, console=console, refresh_per_second=2, transient=True)
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

    def _lines(self) -> Text:
        if self._run is None:
            return Text("connecting ...", style="dim")
        run, state = self._run, self._state()
        elapsed_s = max(time.perf_counter() - self._began_s, 1e-9)
        counts = [
            f"{elapsed_s:.0f} s",
            f"{run.tally.requests + state.requests} of {run.planned}",
            f"{state.in_flight} in flight",
            f"{run.tally.failed + state.failed} failed",
        ]
        speeds = [
            f"{state.output_tokens / elapsed_s:.0f} tokens/s",
            f"TTFT p50 {_ms(state.ttft, 0.5)}, p99 {_ms(state.ttft, 0.99)}",
            f"client {100 * state.cpu_share:.0f}% CPU",
        ]
        lines = [run.url, "  ".join(counts), "  ".join(speeds)]
        return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")


def _ms(times: Histogram, share: float) -> str:
    return f"{1000 * times.percentile(share):.0f} ms" if times.count else "-"
