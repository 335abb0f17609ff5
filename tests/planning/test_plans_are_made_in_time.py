"""With a clock, a busy machine gets a plan in time, which says what it could not prove."""

import itertools

from headgate.planning import planner
from headgate.planning.problem import Demand, Option, Problem


def scarce() -> Problem:
    """Thirty demands that want more than there is."""
    demands = []
    for index in range(30):
        options = tuple(
            Option(
                server=f"{index}-{place}",
                accelerator=f"t{place}",
                type=f"t{place}",
                units=1 + (index + place) % 3,
                cost=10.0 + 7 * place + index % 5,
                rate_per_s=1.0 + 0.37 * ((index * 7 + place * 5) % 11),
                maximum=40,
            )
            for place in range(4)
        )
        demands.append(
            Demand(name=f"d{index}", priority=1 + index % 3, rate_per_s=11.0 + index % 7, options=options)
        )
    return Problem(
        demands=tuple(demands),
        capacity={f"t{place}": 60 for place in range(4)},
        best_effort=True,
        switching=0.1,
    )


def test_the_limit_holds_on_a_busy_machine():
    """Each look at the clock takes a second: after few of them, what was found is the plan."""
    looks = itertools.count()
    plan = planner.plan(scarce(), 10.0, lambda: float(next(looks)))
    assert not plan.is_optimal
    assert next(looks) < 100
    used: dict[str, int] = {}
    for each in plan.assignments:
        used[each.option.type] = used.get(each.option.type, 0) + each.replicas * each.option.units
    assert used
    assert all(number <= scarce().capacity[kind] for kind, number in used.items())
