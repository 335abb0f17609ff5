"""Whole demands within the capacity, by priority, at the least cost: exact, by column generation.

A column is one way to serve one demand. A linear program mixes columns within the capacity, and its prices of
accelerators tell which other columns would help, until none does. Its value is a bound that is almost always
within a thousandth of the best plan. Only columns whose reduced cost is within a gap can be part of a plan
within the same gap, and such a plan leaves few scarce accelerators unused, so an integer program of all those
columns finds the best plan, or proves that the gap is too narrow. The solver proves to the last cent: within
1e-6, not within a share of the cost.

First, as many demands of each priority as possible are served, in order; then, the cost is minimized.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from headgate.planning import rounding
from headgate.planning.choosing import Chosen
from headgate.planning.demand_model import Counts
from headgate.planning.mixture import Column, Prices
from headgate.planning.pool import Bound, Pool, cost_of, is_enough, missed_of, step_of
from headgate.planning.problem import Demand

__all__ = ["Best", "best_within"]

_ROUNDS: Final = 100
_EQUAL: Final = 1e-7
_FINE: Final = 10.0
"""Of a demand that is not served, in costs of the dearest column, while one finds out whether all can be."""
_FAR: Final = 0.01
_FIRST_GAP: Final = 4e-4
"""That the search begins with, as a share of the bound."""
_WIDER: Final = 2.0
_LEAST_WIDER, _BIT_WIDER, _MOST_WIDER = 1.1, 1.2, 3.0
_SHORT: Final = 600
_MORE: Final = 2.0
"""Of the solver's iterations: the next search may take so many, or so many times as many as the last one. In
a gap that is a tenth too wide, a long search takes twice as long."""
_POWER: Final = 2.0
"""Of the gap, with which iterations grow at least."""
_ADDED: Final = 1.3
"""Columns are added for a gap that is wider than that of the next search, and serve several of them."""
_WIDEST: Final = 100.0
_PROOF: Final = 0.75
"""Share of the time for a search that may prove a plan; the rest is for better ones that are not proven."""
_SEARCHED: Final = 1e-2
"""Without a plan near a gap of this share, one is looked for once searches are no longer short: it spares
others in wide gaps, but takes longer than those in narrow ones."""
_GOOD_S: Final = 1.0
"""Seconds for a plan that is not proven."""


class Best(NamedTuple):
    counts: Counts
    bound: float
    is_optimal: bool
    seconds: float


def best_within(
    demands: Sequence[Demand],
    capacity: Mapping[str, int],
    switching: float,
    start: Sequence[Counts],
    limit_s: float,
    now: Callable[[], float],
) -> Best | None:
    """The best plan, from one that keeps to the capacity; None if changes cost as much as replicas."""
    counts = [(0,) * len(demand.options) for demand in demands]
    wanted = [index for index, demand in enumerate(demands) if demand.options and not _is_idle(demand)]
    if switching >= 1 or not wanted:
        return None
    pool = Pool([demands[index] for index in wanted], capacity, switching, now)
    chosen = [pool.column(place, start[index]) for place, index in enumerate(wanted)]
    pool.add(chosen)
    pool.best = chosen
    found = _at_once(pool, chosen, limit_s) or _one_by_one(pool, pool.best, limit_s)
    for index, column in zip(wanted, found.chosen, strict=True):
        counts[index] = column.counts
    return Best(tuple(itertools.chain.from_iterable(counts)), found.bound, found.is_optimal, pool.seconds)


def _is_idle(demand: Demand) -> bool:
    """Whether it needs no replicas."""
    return demand.rate_per_s <= 0 and not any(option.minimum for option in demand.options)


class _Found(NamedTuple):
    chosen: list[Column]
    bound: float
    is_optimal: bool

    @property
    def cost(self) -> float:
        return cost_of(self.chosen)


def _mixed(pool: Pool, group: int | None, limit_s: float) -> Bound | None:
    """Add columns until none improves the mix; the best bound."""
    best: Bound | None = None
    guess = pool.guess() if group is None else None
    if guess is not None and (first := pool.bound(guess, group)) is not None:
        best, columns = first
        pool.add(columns)
    for _ in range(_ROUNDS):
        if best is not None and pool.seconds > limit_s:
            return best
        pool.mixture.aim(pool.costs() if group is None else pool.misses(group))
        mix = pool.mixture.solve()
        if mix is None:
            return None
        prices = mix.prices
        is_far = best is not None and mix.objective - best.total > _FAR * mix.objective
        if best is not None and is_far and group is None:
            # Prices of few columns are far off: those between them and the best ones need fewer rounds.
            prices = _between(best.prices, mix.prices)
        found = pool.bound(prices, group)
        if found is None:
            return None
        bound, columns = found
        best = bound if best is None or bound.total > best.total else best
        is_new = pool.add(columns)
        if group is not None and math.ceil(best.total - _EQUAL) >= math.ceil(mix.objective - _EQUAL):
            return best
        is_settled = not is_new and prices is mix.prices
        if is_settled or mix.objective - best.total <= _EQUAL * abs(mix.objective):
            return best
    return best


def _between(one: Prices, other: Prices) -> Prices:
    return Prices((one.fees + other.fees) / 2, (one.rewards + other.rewards) / 2)


def _can_serve_all(pool: Pool, limit_s: float) -> bool:
    """Whether parts of columns serve all demands, whose columns are added. All have to be required.

    Those that are not served have a fine, so that the mix always exists, and its prices tell which columns
    help to serve them.
    """
    guess = pool.guess()
    found = None if guess is None else pool.bound(guess, None)
    fine = _FINE * max((abs(cost) for cost in pool.costs()), default=0.0)
    fined = math.inf
    for _ in range(_ROUNDS):
        if found is None or not pool.add(found[1]) or pool.seconds > limit_s:
            return False
        for group in range(len(pool.groups)):
            pool.mixture.require(group, 0)
        pool.mixture.aim(pool.costs() + fine * (1 - pool.mixture.served))
        mix = pool.mixture.solve()
        for group, members in enumerate(pool.groups):
            pool.mixture.require(group, len(members))
        if mix is None or (1 - pool.mixture.served) @ mix.values <= _EQUAL:
            return mix is not None
        if mix.objective >= fined - _EQUAL * abs(fined):
            return False
        fined = mix.objective
        found = pool.bound(mix.prices, None)
    return False


def _at_once(pool: Pool, chosen: list[Column], limit_s: float) -> _Found | None:
    """As if as many demands could be served as fractions of them; None: no such plan was found."""
    for group, members in enumerate(pool.groups):
        pool.require(group, len(members))
    if is_enough(pool, chosen) or _can_serve_all(pool, limit_s):
        return _cheapest(pool, chosen if is_enough(pool, chosen) else None, limit_s)
    for group in range(len(pool.groups)):
        pool.require(group, 0)
    for group, members in enumerate(pool.groups):
        missed = missed_of(pool, group, chosen)
        if missed:
            bound = _mixed(pool, group, limit_s)
            if bound is None:
                return None
            missed = max(0, math.ceil(bound.total - _EQUAL))
        pool.require(group, len(members) - missed)
    return _cheapest(pool, chosen if is_enough(pool, chosen) else None, limit_s)


def _one_by_one(pool: Pool, chosen: list[Column], limit_s: float) -> _Found:
    """Serve as many demands as possible of each group in turn."""
    for group in range(len(pool.groups)):
        pool.require(group, 0)
    is_proven = True
    most_s = pool.seconds + (limit_s - pool.seconds) / 2
    for group, members in enumerate(pool.groups):
        if missed_of(pool, group, chosen):
            chosen, is_most = _most_served(pool, group, chosen, most_s)
            is_proven = is_proven and is_most
        pool.require(group, len(members) - missed_of(pool, group, chosen))
    found = _cheapest(pool, chosen, limit_s)
    if found is None:
        return _Found(chosen, -math.inf, False)
    return found._replace(is_optimal=found.is_optimal and is_proven)


def _most_served(pool: Pool, group: int, chosen: list[Column], limit_s: float) -> tuple[list[Column], bool]:
    """Serve as many demands of the group as possible. Whether it is proven."""
    members = len(pool.groups[group])
    most = missed_of(pool, group, chosen)
    if pool.seconds > limit_s:
        return chosen, False
    bound = _mixed(pool, group, limit_s)
    if bound is None:
        return chosen, False
    is_proven = True
    for missed in range(max(0, math.ceil(bound.total - _EQUAL)), most):
        if pool.seconds > limit_s:
            return chosen, False
        found = _with_missed(pool, bound, group, missed, limit_s)
        if found.columns is not None and found.objective <= missed + _EQUAL:
            return _filled(pool, found.columns), is_proven
        if not found.is_finished:
            pool.require(group, members - missed)
            cheapest = _cheapest(pool, None, limit_s)
            if cheapest is not None:
                return _filled(pool, cheapest.chosen), is_proven
            pool.require(group, 0)
            is_proven = False
    return chosen, is_proven


def _with_missed(pool: Pool, bound: Bound, group: int, missed: int, limit_s: float) -> Chosen:
    """A choice with so many demands of the group that are not served, first out of the columns that there
    are, then out of all."""
    seconds = (limit_s - pool.seconds) / 2
    found = pool.search(pool.misses(group), missed, seconds)
    if not found.is_finished or (found.columns is not None and found.objective <= missed + _EQUAL):
        return found
    added = pool.add_within(bound, missed - bound.total, group)
    if added is None:
        return found._replace(is_finished=False)
    return pool.search(pool.misses(group), missed, seconds) if added else found


def _filled(pool: Pool, chosen: Sequence[Column]) -> list[Column]:
    """Serve others with what is left."""
    left = pool.capacity - sum(np.array(column.used, float) for column in chosen)
    filled = list(chosen)
    for column in sorted(pool.mixture.columns, key=lambda column: (column.demand, sum(column.used))):
        if column.is_served and not filled[column.demand].is_served:
            used = np.array(column.used, float)
            if np.all(used <= left):
                filled[column.demand] = column
                left -= used
    return filled


def _cheapest(pool: Pool, chosen: list[Column] | None, limit_s: float) -> _Found | None:
    """The cheapest plan that serves what is required, from one that does; None: none was found."""
    if pool.seconds > limit_s:
        return None if chosen is None else _Found(chosen, -math.inf, False)
    bound = _mixed(pool, None, limit_s)
    if bound is None:
        return None
    pool.mixture.aim(pool.costs())
    rounded = rounding.rounded(pool, bound)
    if rounded is not None:
        pool.keep(rounded.chosen)
    if is_enough(pool, pool.best) and (chosen is None or cost_of(pool.best) < cost_of(chosen)):
        chosen = pool.best
    found = _searched(pool, bound, chosen, limit_s)
    if found is not None and found.is_optimal:
        return found
    if found is None and rounded is not None:
        repaired = rounding.repaired(pool, rounded)
        found = None if repaired is None else _Found(repaired, bound.total, False)
    if found is None:
        return None
    better = rounding.improved(pool, found.chosen, limit_s)
    pool.keep(better)
    return found._replace(chosen=better)


def _searched(pool: Pool, bound: Bound, chosen: list[Column] | None, limit_s: float) -> _Found | None:
    """The best plan within ever wider gaps, until it is proven, or time runs out."""
    step = step_of(pool)
    best = None if chosen is None else _Found(chosen, bound.total, False)
    gap, added = max(step, _FIRST_GAP * abs(bound.total)), 0.0
    looked_for = _SEARCHED * abs(bound.total)
    proof_s = pool.seconds + _PROOF * (limit_s - pool.seconds)
    before: _Search | None = None
    while pool.seconds < proof_s:
        most = math.inf if best is None else best.cost - bound.total - step
        if best is not None and most <= step * _EQUAL:
            return best._replace(bound=best.cost, is_optimal=True)
        gap = min(gap, most)
        if gap > added:
            added = min(_ADDED * gap, most)
            if pool.add_within(bound, added, None) is None:
                break
        found = pool.search(pool.costs(), bound.total + gap, proof_s - pool.seconds)
        if found.columns is not None and (best is None or found.objective < best.cost):
            best = _Found(list(found.columns), bound.total if best is None else best.bound, False)
        if not found.is_finished:
            break
        least = bound.total + gap
        if best is not None:
            if gap >= most or best.cost <= least + _EQUAL * abs(least):
                return best._replace(bound=best.cost, is_optimal=True)
            best = best._replace(bound=least)
        search = _Search(gap, max(found.iterations, 1))
        gap *= _widening(before, search)
        before = search
        is_far = best is None or best.cost - bound.total > _WIDER * gap
        if is_far and gap > looked_for and search.iterations > _SHORT:
            looked_for = _WIDER * gap
            best = _better(pool, best, least, min(_GOOD_S, proof_s - pool.seconds))
        if best is None and gap > _WIDEST * abs(bound.total):
            return None
    least = bound.total if best is None else best.bound
    return _better(pool, best, least, min(_GOOD_S, (limit_s - pool.seconds) / 2))


class _Search(NamedTuple):
    """One that found that no plan is within its gap."""

    gap: float
    iterations: int


def _widening(before: _Search | None, last: _Search) -> float:
    """By how much to widen the gap, so that the next search is not much longer than the last one. Iterations
    grow with a power of the gap, which the last two searches tell."""
    power = _POWER
    if before is not None and last.gap > before.gap:
        grown = math.log(last.iterations / before.iterations) / math.log(last.gap / before.gap)
        power = max(grown, power)
    allowed = max(_SHORT / last.iterations, _MORE)
    most = _MOST_WIDER if last.iterations < _SHORT else _BIT_WIDER
    return min(max(math.pow(allowed, 1 / power), _LEAST_WIDER), most)


def _better(pool: Pool, best: _Found | None, bound: float, limit_s: float) -> _Found | None:
    """A better plan out of the columns that there are, if one is found soon: it narrows the next gap."""
    found = pool.search(pool.costs(), math.inf, limit_s, in_depth=False)
    if found.columns is None or (best is not None and found.objective >= best.cost):
        return best
    return _Found(list(found.columns), bound, False)
