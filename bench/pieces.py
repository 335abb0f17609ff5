"""CPU time of small pieces of code, beside a plain Python loop by which machines compare."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

LOOP = "Python loop of 100"


def costs_us(rows: Mapping[str, Callable[[], object]], *, repeats: int, runs: int) -> dict[str, float]:
    """CPU time of one call of each, in microseconds: the least mean of several runs.

    Runs of all rows take turns, so that a machine that changes its clock is fair to each.
    """
    least = dict.fromkeys(rows, float("inf"))
    for _ in range(runs):
        for name, work in rows.items():
            begin = time.process_time()
            for _ in range(repeats):
                work()
            least[name] = min(least[name], (time.process_time() - begin) / repeats * 1e6)
    return least


def python_loop() -> int:
    total = 0
    for n in range(100):
        total += n
    return total
