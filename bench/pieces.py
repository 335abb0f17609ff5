"""CPU time of small pieces of code, with a plain Python loop to compare machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

LOOP = "Python loop of 100"


def costs_us(rows: Mapping[str, Callable[[], object]], *, repeats: int, runs: int) -> dict[str, float]:
    """CPU time of one call of each, in microseconds: the minimum of the means of several runs.

    The runs of all rows alternate, so that changes of the clock frequency affect all equally.
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
