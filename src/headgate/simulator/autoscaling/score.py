"""The result of a replay in a few numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from headgate.simulator.autoscaling.run import Replay


class Score(NamedTuple):
    """The result of a controller in one number each."""

    attainment: float
    """Share of requests with TTFT and TPOT in time."""
    ttft_attainment: float
    tpot_attainment: float
    replica_hours: float
    reversals: int
    """Changes of direction of the number of wanted replicas."""
    worst_minute: float
    """The least attainment of the requests that arrived within one minute."""
    starts: int


def score(run: Replay) -> Score:
    """Attainments are 1 if there are no requests."""
    met = ttft = tpot = 0
    minutes: dict[int, list[int]] = {}
    for work in run.works:
        has_ttft, has_tpot = run.has_ttft(work), run.has_tpot(work)
        met += has_ttft and has_tpot
        ttft += has_ttft
        tpot += has_tpot
        minute = minutes.setdefault(int(work.at_s // 60), [0, 0])
        minute[0] += has_ttft and has_tpot
        minute[1] += 1
    count = len(run.works) or 1
    worst = min((met_then / all_then for met_then, all_then in minutes.values()), default=1.0)
    return Score(
        met / count if run.works else 1.0,
        ttft / count if run.works else 1.0,
        tpot / count if run.works else 1.0,
        run.replica_hours,
        reversals([moment.desired for moment in run.moments]),
        worst,
        run.starts,
    )


def reversals(counts: Sequence[int]) -> int:
    """How often a series turns from rising to falling or back."""
    turns = direction = 0
    for before, after in itertools.pairwise(counts):
        if after == before:
            continue
        now = 1 if after > before else -1
        turns += direction not in (0, now)
        direction = now
    return turns
