"""Whole choices out of a mix: depth-first branch and bound, which ends at the first choice within a limit, or
proves that there is none."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from headgate.planning.mixture import Column, Mix, Mixture
from headgate.planning.search import Array, Flags

__all__ = ["NODE_S", "Search", "search"]

NODE_S: Final = 1.5e-3
"""Seconds that a node takes, roughly."""
_WHOLE: Final = 1e-6
_EQUAL: Final = 1e-7


class Search(NamedTuple):
    chosen: tuple[Column, ...] | None
    """One column of each demand, in order."""
    objective: float
    is_finished: bool
    """Whether the chosen one is the best, or it is proven that there is none."""
    nodes: int


def search(mixture: Mixture, objective: Array, limit: float, step: float, nodes: int) -> Search:
    """The best choice whose objective is at most `limit`. Objectives are multiples of `step`, if it is not 0.

    Looks at `nodes` mixes at most, and at fewer if they take longer than they usually do.
    """
    ends_s = mixture.seconds + nodes * NODE_S
    mixture.aim(objective)
    tree = [(-np.inf, np.ones(len(mixture.columns), bool))]
    best: Flags | None = None
    visited = 0
    tolerance = _EQUAL * max(1.0, abs(limit) if np.isfinite(limit) else float(np.abs(objective).sum()))
    while tree and visited < nodes and mixture.seconds < ends_s:
        bound, allowed = tree.pop()
        if bound > limit + tolerance:
            continue
        visited += 1
        mix = mixture.solve(allowed)
        if mix is None or mix.objective > limit + tolerance:
            continue
        if not np.any(np.abs(mix.values - np.round(mix.values)) > _WHOLE):
            best = mix.values > 0.5
            limit = float(objective[best].sum()) - max(step, 2 * tolerance)
            continue
        allowed &= (mix.values > _WHOLE) | (mix.reduced <= limit - mix.objective + tolerance)
        tree += [(mix.objective, each) for each in _branches(mixture, mix, allowed)]
    chosen = None if best is None else tuple(mixture.columns[index] for index in np.flatnonzero(best))
    value = np.inf if best is None else float(objective[best].sum())
    if chosen is not None:
        chosen = tuple(sorted(chosen, key=lambda column: column.demand))
    return Search(chosen, value, not tree, visited)


def _branches(mixture: Mixture, mix: Mix, allowed: Flags) -> list[Flags]:
    """Two halves that exclude the mix; the likelier one is last.

    First whether a demand is served at all; then how many accelerators of a type it gets. Where columns of
    one demand use the same, one of them or not.
    """
    is_part = np.abs(mix.values - np.round(mix.values)) > _WHOLE
    best: tuple[float, Flags, Flags] | None = None
    for demand in np.unique(mixture.demand_of[is_part]):
        own = mixture.demand_of == demand
        parts = np.flatnonzero(own & (mix.values > _WHOLE))
        shares = mix.values[parts]
        features = np.column_stack([mixture.served[parts] * 1e3, mixture.used[parts]])
        means = shares @ features
        spreads = shares @ features**2 - means**2
        place = int(spreads.argmax())
        if best is not None and spreads[place] <= best[0]:
            continue
        if spreads[place] < _WHOLE:
            most = parts[shares.argmax()]
            lower = np.arange(len(own)) == most
        else:
            feature = mixture.served * 1e3 if place == 0 else mixture.used[:, place - 1]
            lower = feature <= means[place]
        best = float(spreads[place]), own & lower, own & ~lower
    assert best is not None, "a mix that is not whole has a part"
    _, low, high = best
    branches = [allowed & ~high, allowed & ~low]
    if mix.values[low].sum() > mix.values[high].sum():
        branches.reverse()
    return branches
