"""Pods as a test wants them to be, with their metrics pages."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass
class Pods:
    """The Pods of one workload, as the test wants them to be."""

    workload: tuple[str, str, str]
    """Namespace, kind and name."""
    values: dict[str, float | Sequence[float | None]] = field(default_factory=dict)
    """A metric's value of every Pod, or of each, in the order of their creation: None is missing."""
    totals: dict[str, float] = field(default_factory=dict)
    """A metric's sum over the ready Pods."""
    rate: float = 0.0
    """How fast the counters jobs_total of all ready Pods grow together; they share it evenly."""
    texts: Sequence[str] = ()
    """Further lines of the page of each."""
    ready: int | None = None
    """How many are ready; all if None."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Select them."""
    order: list[str] = field(default_factory=list)
    """Their names."""
    addresses: dict[str, str] = field(default_factory=dict)
    is_silent: bool = False
    """Whether their pages are errors."""
    counted: dict[str, float] = field(default_factory=dict)
    """The counters, which grow until `counted_at`."""
    counted_at: float = field(default_factory=time.monotonic)

    def is_ready(self, name: str) -> bool:
        return self.ready is None or self.order.index(name) < self.ready

    def advance(self) -> None:
        """Let the counters grow until now."""
        now = time.monotonic()
        ready = [name for name in self.order if self.is_ready(name)]
        for name in ready:
            grown = self.rate / len(ready) * (now - self.counted_at)
            self.counted[name] = self.counted.get(name, 0.0) + grown
        self.counted_at = now

    def page(self, name: str) -> str:
        number = self.order.index(name)
        ready = sum(self.is_ready(each) for each in self.order)
        lines = [f"{metric} {total / max(ready, 1)}" for metric, total in self.totals.items()]
        for metric, given in self.values.items():
            each = [given] * len(self.order) if isinstance(given, float | int) else [*given]
            lines += [f"{metric} {value}" for value in each[number : number + 1] if value is not None]
        if self.rate:
            self.advance()
            lines += [f"jobs_total {self.counted.get(name, 0.0)}"]
        return "\n".join([*lines, *self.texts[number : number + 1]]) + "\n"
