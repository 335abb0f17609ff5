"""The best policy in each cell and in the total, and our gateway's distance from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A cell, or the total."""

    cell: str
    best: str
    """Of all policies except the oracles."""
    best_rate: float
    """Requests per second."""
    second: str
    """The best of the others; empty if there are none."""
    second_rate: float
    ours: str
    our_rate: float
    our_distance: float
    """0 is first; -0.05 is 5 % behind the best."""


SUM = "sum"


def standings(
    rates: Mapping[str, Mapping[str, float]], ours: str, oracles: Sequence[str] = ()
) -> list[Standing]:
    """Standings by the highest rates of each policy in each cell; the last one is the total.

    Cells in which no gateway sustains any rate are omitted. Empty if our policy did not take part.
    """
    if ours not in rates:
        return []
    gateways = {policy: dict(by_cell) for policy, by_cell in rates.items() if policy not in oracles}
    for by_cell in gateways.values():
        by_cell[SUM] = sum(by_cell.values())
    by_policy = {
        cell: {policy: by_cell[cell] for policy, by_cell in gateways.items()} for cell in gateways[ours]
    }
    return [_standing(cell, each, ours) for cell, each in by_policy.items() if any(each.values())]


def _standing(cell: str, rates: Mapping[str, float], ours: str) -> Standing:
    order = sorted(rates, key=lambda policy: (-rates[policy], policy != ours))
    best, *others = order
    second = others[0] if others else ""
    our_rate, best_rate = rates[ours], rates[best]
    return Standing(
        cell=cell,
        best=best,
        best_rate=round(best_rate, 2),
        second=second,
        second_rate=round(rates[second], 2) if second else 0.0,
        ours=ours,
        our_rate=round(our_rate, 2),
        our_distance=round(our_rate / best_rate - 1.0, 4),
    )
