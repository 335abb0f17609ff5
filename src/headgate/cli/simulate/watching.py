"""A long replay seen from a terminal: how far it is, and how it is ended before its time."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Iterator
from types import FrameType, TracebackType
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Item = TypeVar("Item")

_EVERY_S = 0.2


class Watch:
    """Hands requests on one by one, shows how many are gone, and stops at the first Ctrl-C.

    A run that is stopped so ends as any other: what has arrived by then is served, and can be judged. The
    second Ctrl-C ends the process.
    """

    def __init__(self, console: Console) -> None:
        self.is_interrupted = False
        self._console = console
        self._before: Any = None

    def __enter__(self) -> Watch:
        self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def each(self, items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
        """The items, as long as nobody interrupts; the bar is on terminals only."""
        if not self._console.is_terminal:
            yield from self._until_interrupted(items)
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self._console, transient=True, auto_refresh=False) as bar:
            task = bar.add_task(label, total=total)
            shown_at = 0.0
            for number, item in enumerate(self._until_interrupted(items)):
                if time.monotonic() - shown_at > _EVERY_S:
                    shown_at = time.monotonic()
                    bar.update(task, completed=number, refresh=True)
                yield item

    def said(self, text: str) -> None:
        """A line for whoever looks on; nothing where it would be mixed with output that is kept."""
        if self._console.is_terminal:
            self._console.print(text, highlight=False, markup=False, style="dim", soft_wrap=True)

    def _until_interrupted(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            if self.is_interrupted:
                self.said("stopping: what has arrived is served; Ctrl-C again ends the command at once")
                return
            yield item

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.is_interrupted:
            raise KeyboardInterrupt
        self.is_interrupted = True
