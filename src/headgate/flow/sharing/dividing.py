"""How limits, and the capacity of a pool, are divided among processes.

Of a limit, each process has what it holds, and a part of what is free: half of that in equal parts, so that
any process has some for its next requests, and half by how many arrived at each recently. Parts add up to the
limit, so that processes that keep to theirs keep to it together, except for what arrives while the parts are
delivered.

A pool's capacity follows what is fair to the flows queued with the highest priority: a flow's share, by its
weight, goes to where its requests are queued. A tenth is in equal parts. A process with more in flight than
its share sends nothing until it is below; what is free goes to those that have less.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from headgate.flow.sharing.reports import NO_BOUND, Part, PoolReport, Waits

EVEN_FREE = 0.5
EVEN_ROOM = 0.1


def first_part(most: int, processes: int, number: int) -> int:
    """The initial part of a limit for the process with this number, from 0."""
    if most == NO_BOUND:
        return NO_BOUND
    return most // processes + (number < most % processes)


def parts(waits: Sequence[Waits]) -> list[Part]:
    """What may wait in each process; each is bound by the limit in its own report."""
    came = [each.came for each in waits]
    weights = _mixed(came, EVEN_FREE)
    requests = _divided([each.max_requests for each in waits], [each.requests for each in waits], weights)
    sizes = _divided([each.max_bytes for each in waits], [each.bytes for each in waits], weights)
    return [Part(*both) for both in zip(requests, sizes, strict=True)]


def _divided(most: Sequence[int], held: Sequence[int], weights: Sequence[float]) -> list[int]:
    """What each holds, plus its part of what is free in whole units, by largest remainder."""
    bound = max(most)
    free = max(bound - sum(held), 0)
    exact = [free * weight for weight in weights]
    given = [math.floor(each) for each in exact]
    by_rest = sorted(range(len(exact)), key=lambda place: (given[place] - exact[place], place))
    for place in by_rest[: free - sum(given)]:
        given[place] += 1
    return [
        NO_BOUND if own == NO_BOUND else has + more for own, has, more in zip(most, held, given, strict=True)
    ]


def rooms(reports: Sequence[PoolReport]) -> list[float]:
    """The share of the pool's capacity for each process."""
    wanted = _mixed(_fair_demand(reports), EVEN_ROOM)
    fullness = [report.fullness for report in reports if report.fullness is not None]
    if len(fullness) < len(reports):
        return wanted
    free = max(1.0 - sum(fullness), 0.0)
    if not any(report.backlog for report in reports):
        return [has + free / len(fullness) for has in fullness]
    lacking = [max(want - has, 0.0) for want, has in zip(wanted, fullness, strict=True)]
    given = min(free / total, 1.0) if (total := sum(lacking)) else 0.0
    return [
        min(has, want) + lacks * given for has, want, lacks in zip(fullness, wanted, lacking, strict=True)
    ]


def _fair_demand(reports: Sequence[PoolReport]) -> list[float]:
    """Demand of each process for the highest queued priority: each flow's share is where its work is
    queued."""
    tops = [row.priority for report in reports for row in report.backlog]
    if not tops:
        return [0.0] * len(reports)
    top = max(tops)
    rows = [[row for row in report.backlog if row.priority == top] for report in reports]
    works: Counter[str] = Counter()
    weights: dict[str, float] = {}
    for row in (row for own in rows for row in own):
        works[row.flow] += max(row.work, 1)
        weights[row.flow] = row.weight
    return [sum(weights[row.flow] * max(row.work, 1) / works[row.flow] for row in own) for own in rows]


def _mixed(demands: Sequence[float], even: float) -> list[float]:
    """Shares that add up to 1, a fraction `even` of them in equal parts; all equal without any demand."""
    total = sum(demands)
    if not total:
        return [1.0 / len(demands)] * len(demands)
    return [even / len(demands) + (1.0 - even) * demand / total for demand in demands]
