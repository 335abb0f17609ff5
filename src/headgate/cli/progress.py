"""Show the progress of a start: a live table on a terminal, otherwise one plain line for each change."""

import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text


class Progress:
    """Named steps, each with a line of detail, until done or failed."""

    def __init__(self, console: Console, steps: list[str]) -> None:
        self._console = console
        self._details = dict.fromkeys(steps, "")
        self._done: dict[str, float] = {}
        self._began = time.monotonic()
        self._live = (
            Live(get_renderable=self._table, console=console, refresh_per_second=12, transient=False)
            if console.is_terminal
            else None
        )

    def __enter__(self) -> "Progress":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.refresh()
            self._live.stop()

    def detail(self, step: str, text: str) -> None:
        """Set the current detail of a step; prints it only if it changed."""
        if self._details[step] != text:
            self._details[step] = text
            self._say(f"{step}: {text}")

    def done(self, step: str, text: str) -> None:
        if step not in self._done:
            self._done[step] = time.monotonic() - self._began
            self._details[step] = text
            self._say(f"{step}: {text} ({self._done[step]:.1f} s)")

    def _say(self, line: str) -> None:
        if self._live is None:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for step, detail in self._details.items():
            if step in self._done:
                mark: Text | Spinner = Text("✓", style="green")
            elif detail:
                mark = self._spinner
            else:
                mark = Text("·", style="dim")
            took = f"{self._done[step]:.1f} s" if step in self._done else ""
            table.add_row(
                mark, step, Text(detail, style="" if step in self._done else "dim"), Text(took, "dim")
            )
        return table

    @property
    def _spinner(self) -> Spinner:
        spinner = Spinner("dots")
        spinner.start_time = 0.0  # every frame creates a new spinner; a common start time keeps them turning
        return spinner
