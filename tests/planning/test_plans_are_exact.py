"""Plans of several demands: the least cost, the most served by priority, and as few changes as worthwhile."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.planning import Demand, Option, Plan, Problem, plan


def server(
    name: str, *choices: tuple[str, int, float], priority: int = 1, two_units: bool = False, current: str = ""
) -> Demand:
    """A demand of one server, by accelerator, replicas that it needs there, and what they cost together."""
    options = tuple(
        Option(
            server=name,
            accelerator=kind,
            type=kind,
            units=2 if two_units and kind == "H" else 1,
            cost=cost / number,
            rate_per_s=1 / number,
            current=number if kind == current else 0,
        )
        for kind, number, cost in choices
    )
    return Demand(name=name, rate_per_s=1.0, priority=priority, options=options)


def replicas(found: Plan) -> dict[str, tuple[str, int]]:
    return {each.option.server: (each.option.accelerator, each.replicas) for each in found.assignments}


def planned(*demands: Demand, best_effort: bool = False, **capacity: int) -> Plan:
    return plan(Problem(demands=demands, capacity=capacity or None, best_effort=best_effort))


def test_scarce_accelerators_go_where_they_save_most() -> None:
    """The first server moves to the other type."""
    found = planned(
        server("s1", ("A", 3, 30), ("B", 4, 50)), server("s2", ("A", 2, 20), ("B", 2, 80)), A=4, B=6
    )
    assert (replicas(found), found.cost) == ({"s1": ("B", 4), "s2": ("A", 2)}, 70)
    assert found.is_optimal
    assert found.gap == 0


def test_a_plan_beats_taking_servers_one_by_one() -> None:
    """A greedy choice costs 62."""
    found = planned(
        server("s1", ("A", 3, 30), ("B", 3, 40)),
        server("s2", ("A", 2, 10), ("B", 2, 19)),
        server("s3", ("A", 1, 5), ("B", 1, 13)),
        A=3,
        B=10,
    )
    assert (replicas(found), found.cost) == ({"s1": ("B", 3), "s2": ("A", 2), "s3": ("A", 1)}, 55)


def test_as_many_servers_as_possible_are_served() -> None:
    """Two small ones instead of a large one."""
    found = planned(server("s1", ("A", 3, 30)), server("s2", ("A", 2, 20)), server("s3", ("A", 1, 10)), A=3)
    assert replicas(found) == {"s2": ("A", 2), "s3": ("A", 1)}
    assert found.served == {"s1": 0, "s2": 1, "s3": 1}


def test_priority_comes_before_everything() -> None:
    """One important server is served rather than two others; what is left serves one in part."""
    wanted = [server("hi", ("A", 4, 40)), server("lo", ("A", 4, 40), priority=10)]
    assert replicas(planned(*wanted, A=5)) == {"hi": ("A", 4)}
    found = planned(*wanted, A=5, best_effort=True)
    assert replicas(found) == {"hi": ("A", 4), "lo": ("A", 1)}
    assert found.served == {"hi": 1, "lo": pytest.approx(0.25)}
    assert replicas(planned(*wanted, A=3)) == {}
    assert replicas(planned(*wanted, A=3, best_effort=True)) == {"hi": ("A", 3)}


def test_replicas_of_several_accelerators_count_as_many() -> None:
    """Five replicas of two do not fit into eight."""
    hi = server("hi", ("H", 5, 500), ("A", 8, 640), two_units=True)
    lo = server("lo", ("A", 3, 240), ("H", 1, 260), priority=5, two_units=True)
    found = planned(hi, lo, H=8, A=9)
    assert (replicas(found), found.cost) == ({"hi": ("A", 8), "lo": ("H", 1)}, 900)


def variants(rpm: float, *, current: tuple[int, int] = (0, 0)) -> Demand:
    """Two variants of one model: 30 requests a minute for 40, 75 for 90."""
    small = Option(
        server="V1", accelerator="S", type="S", units=1, cost=40, rate_per_s=0.5, current=current[0]
    )
    large = Option(
        server="V2", accelerator="L", type="L", units=1, cost=90, rate_per_s=1.25, current=current[1]
    )
    return Demand(name="m", rate_per_s=rpm / 60, priority=1, options=(small, large))


@pytest.mark.parametrize(
    ("rpm", "mix", "cost"),
    [(20, (1, 0), 40), (60, (2, 0), 80), (100, (1, 1), 130), (150, (0, 2), 180), (300, (0, 4), 360)],
)
def test_variants_of_a_model_share_its_demand(rpm, mix, cost) -> None:
    """At the least cost of any mix."""
    found = planned(variants(rpm))
    number = {each.option.server: each.replicas for each in found.assignments}
    assert (number.get("V1", 0), number.get("V2", 0), found.cost) == (*mix, cost)
    assert sum(each.share for each in found.assignments) == pytest.approx(1)


def test_the_shares_of_variants_follow_their_capacity() -> None:
    """30 and 75 requests a minute."""
    found = planned(variants(100))
    assert [each.share for each in found.assignments] == pytest.approx([30 / 105, 75 / 105])


def test_a_change_must_save_more_than_it_costs() -> None:
    """Two small replicas cost 80, one large one 90: not worth to stop and start."""
    assert replicas(planned(variants(60, current=(0, 1)))) == {"V2": ("L", 1)}
    assert replicas(planned(variants(60))) == {"V1": ("S", 2)}
    free = Problem(demands=(variants(60, current=(0, 1)),), switching=0)
    assert replicas(plan(free)) == {"V1": ("S", 2)}


def test_equal_plans_keep_what_runs() -> None:
    """Even if changes are free."""
    demand = server("s", ("A", 2, 20), ("B", 2, 20), current="B")
    assert replicas(plan(Problem(demands=(demand,), switching=0))) == {"s": ("B", 2)}


def test_minimum_and_maximum_are_kept() -> None:
    """The minimum holds without load; above the maximum, a demand is served in part."""
    one = variants(0)
    small = msgspec.structs.replace(one.options[0], minimum=2, maximum=3)
    idle = msgspec.structs.replace(one, options=(small,))
    assert replicas(planned(idle)) == {"V1": ("S", 2)}
    busy = msgspec.structs.replace(idle, rate_per_s=3.0)
    assert replicas(planned(busy)) == {}
    found = planned(busy, best_effort=True)
    assert (replicas(found), found.served) == ({"V1": ("S", 3)}, {"m": 0.5})


def test_nothing_to_plan_is_a_plan() -> None:
    """No demands, no load, and a demand that nothing serves."""
    assert planned() == Plan(assignments=(), served={}, cost=0, switching_cost=0, bound=0, is_optimal=True)
    assert planned(variants(0)).cost == 0
    nothing = Demand(name="none", rate_per_s=1, priority=1, options=())
    assert planned(nothing, variants(60)).served == {"m": 1.0, "none": 0.0}
    assert planned(nothing, A=1).served == {"none": 0.0}


def test_without_time_there_is_a_plan_with_its_gap() -> None:
    """Of 40 demands for the same scarce accelerators, whatever is found."""
    demands = [server(f"s{n}", ("A", n % 7 + 1, 30 + n), ("B", n % 5 + 2, 50)) for n in range(40)]
    problem = Problem(demands=tuple(demands), capacity={"A": 60, "B": 50})
    found = plan(problem, limit_s=0)
    used = {
        kind: sum(each.replicas for each in found.assignments if each.option.type == kind) for kind in "AB"
    }
    assert used["A"] <= 60
    assert used["B"] <= 50
    assert sum(found.served.values()) >= 10
    assert 0 <= found.gap <= 1
    assert found.is_optimal or found.gap >= 0


def test_without_time_everything_is_served_where_nothing_is_scarce() -> None:
    """By the cheapest single option, at most a replica of each demand too dear."""
    demands = [
        msgspec.structs.replace(variants(rpm), name=f"m{rpm}", priority=rpm % 3)
        for rpm in range(10, 1000, 97)
    ]
    found = plan(Problem(demands=tuple(demands)), limit_s=0)
    assert set(found.served.values()) == {1.0}
    assert 0 <= found.gap < 0.5
    assert found.bound <= plan(Problem(demands=tuple(demands))).cost * 1.1 + 1e-6


kinds = st.sampled_from("ABC")
choices = st.lists(
    st.tuples(kinds, st.integers(1, 4), st.integers(1, 60)), max_size=3, unique_by=lambda c: c[0]
)
problems = st.lists(st.tuples(choices, st.integers(1, 2)), min_size=1, max_size=4)
capacities = st.fixed_dictionaries(dict.fromkeys("ABC", st.integers(0, 6)))


def best(demands: list[Demand], capacity: dict[str, int]) -> tuple[float, ...]:
    """By trying everything: served by priority, as negative numbers, and the least price."""
    found = []
    for chosen in itertools.product(*([None, *demand.options] for demand in demands)):
        used = dict.fromkeys(capacity, 0)
        served, cost = {1: 0, 2: 0}, 0.0
        for demand, option in zip(demands, chosen, strict=True):
            if option is not None:
                number = round(1 / option.rate_per_s)
                used[option.type] += number
                cost += option.cost * number * 1.1
                served[demand.priority] += 1
        if all(used[kind] <= capacity[kind] for kind in used):
            found.append((-served[1], -served[2], cost))
    return min(found)


@given(problems, capacities, st.randoms())
def test_plans_equal_those_found_by_trying_everything(wanted, capacity, rng) -> None:
    """For single servers, in any order."""
    demands = [server(f"s{n}", *own, priority=priority) for n, (own, priority) in enumerate(wanted)]
    shuffled = [
        msgspec.structs.replace(each, options=tuple(rng.sample(each.options, len(each.options))))
        for each in rng.sample(demands, len(demands))
    ]
    found = plan(Problem(demands=tuple(shuffled), capacity=capacity))
    served = [sum(found.served[d.name] for d in demands if d.priority == priority) for priority in (1, 2)]
    wanted_best = best(demands, capacity)
    assert (-served[0], -served[1]) == wanted_best[:2]
    assert found.cost * 1.1 == pytest.approx(wanted_best[2])
    assert found == plan(Problem(demands=tuple(demands), capacity=capacity))
