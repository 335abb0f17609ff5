"""One server after the other, as the reference takes them, with every saturation policy."""

import pytest

from headgate.planning import greedy
from headgate.planning.candidates import Candidate, Entry
from headgate.planning.system import Optimizer, Server

POLICIES = ("None", "PriorityExhaustive", "PriorityRoundRobin", "RoundRobin")


def entry(name: str, *choices: tuple[str, int, float], priority: int = 1, **units: int) -> Entry:
    """A server by accelerator, replicas that it needs there, and their cost, which is the value."""
    found = [
        Candidate(
            accelerator=kind, type=kind, units=units.get(kind, 1), replicas=number, cost=cost, value=cost
        )
        for kind, number, cost in choices
    ]
    return Entry(
        server=Server(name=name, model="m"),
        priority=priority,
        rate_per_s=1.0,
        candidates=tuple(sorted(found, key=lambda each: each.value)),
    )


def chosen(
    entries: list[Entry], policy: str = "None", delayed: bool = False, **capacity: int
) -> dict[str, tuple[str, int]]:
    optimizer = Optimizer(saturation_policy=policy, delayed_best_effort=delayed)
    found = greedy.limited(entries, capacity, optimizer)
    return {name: (each.accelerator, each.replicas) for name, each in found.items()}


def every(entries: list[Entry], **capacity: int) -> dict[tuple[str, bool], dict[str, tuple[str, int]]]:
    """By policy and delay."""
    return {
        (policy, delayed): chosen(entries, policy, delayed, **capacity)
        for policy in POLICIES
        for delayed in (False, True)
    }


def test_the_server_that_would_lose_most_is_first() -> None:
    """The other one takes what is left."""
    servers = [entry("s1", ("A", 3, 30), ("B", 4, 50)), entry("s2", ("A", 2, 20), ("B", 2, 80))]
    found = every(servers, A=4, B=6)
    assert list(found.values()) == [{"s2": ("A", 2), "s1": ("B", 4)}] * 8
    assert sum(each.cost for each in greedy.limited(servers, {"A": 4, "B": 6}, Optimizer()).values()) == 70


def test_the_choice_is_not_the_best_one() -> None:
    """62 instead of 55."""
    servers = [
        entry("s1", ("A", 3, 30), ("B", 3, 40)),
        entry("s2", ("A", 2, 10), ("B", 2, 19)),
        entry("s3", ("A", 1, 5), ("B", 1, 13)),
    ]
    assert chosen(servers, A=3, B=10) == {"s1": ("A", 3), "s2": ("B", 2), "s3": ("B", 1)}


def test_a_large_server_may_displace_two_others() -> None:
    """One of three is served."""
    servers = [entry("s1", ("A", 3, 30)), entry("s2", ("A", 2, 20)), entry("s3", ("A", 1, 10))]
    assert chosen(servers, A=3) == {"s1": ("A", 3)}


def test_what_is_left_goes_to_the_next_priority() -> None:
    """With any policy but None, in proportion of its cost."""
    servers = [entry("hi", ("A", 4, 40)), entry("lo", ("A", 4, 40), priority=10)]
    found = every(servers, A=5)
    for (policy, _), one in found.items():
        assert one == {"hi": ("A", 4)} if policy == "None" else {"hi": ("A", 4), "lo": ("A", 1)}
    part = greedy.limited(servers, {"A": 5}, Optimizer(saturation_policy="RoundRobin"))["lo"]
    assert (part.cost, part.value) == (10, 10)


def test_too_few_accelerators_go_by_policy() -> None:
    """Only the round robin over all priorities leaves something to the last."""
    servers = [entry("hi", ("A", 4, 40)), entry("lo", ("A", 4, 40), priority=10)]
    found = every(servers, A=3)
    assert found["None", False] == found["None", True] == {}
    for policy in POLICIES[1:]:
        assert found[policy, False] == {"hi": ("A", 3)}
    assert found["PriorityExhaustive", True] == found["PriorityRoundRobin", True] == {"hi": ("A", 3)}
    assert found["RoundRobin", True] == {"hi": ("A", 2), "lo": ("A", 1)}


def test_equal_servers_share_or_the_dearest_is_first() -> None:
    """Two of priority 1, one of priority 2, and three accelerators."""
    servers = [entry("a", ("A", 4, 40)), entry("b", ("A", 4, 40.1)), entry("c", ("A", 4, 40.2), priority=2)]
    found = every(servers, A=3)
    assert found["PriorityExhaustive", False] == {"b": ("A", 3)}
    assert found["PriorityRoundRobin", True] == {"b": ("A", 2), "a": ("A", 1)}
    assert found["RoundRobin", True] == {"a": ("A", 1), "b": ("A", 1), "c": ("A", 1)}


def test_replicas_of_two_accelerators_need_both() -> None:
    """Five of them do not fit into eight."""
    hi = entry("hi", ("H", 5, 500), ("A", 8, 640), H=2)
    lo = entry("lo", ("A", 3, 240), ("H", 1, 260), priority=5, H=2)
    found = greedy.limited([hi, lo], {"H": 8, "A": 9}, Optimizer())
    assert {name: (each.accelerator, each.replicas) for name, each in found.items()} == {
        "hi": ("A", 8),
        "lo": ("H", 1),
    }
    assert sum(each.cost for each in found.values()) == 900


def test_few_accelerators_serve_some_of_equal_servers() -> None:
    """Two of five."""
    servers = [entry(f"s{n}", ("A100", 1, 1), ("H100", 1, 2)) for n in range(5)]
    assert len(chosen(servers, A100=1, H100=1)) == 2


def test_nothing_is_chosen_of_nothing() -> None:
    """No servers, no candidates, no accelerators, types that there are not."""
    for policy in POLICIES:
        assert chosen([], policy, A=1) == {}
        assert chosen([entry("s")], policy, A=1) == {}
        assert chosen([entry("s", ("A", 1, 1))], policy, A=0) == {}
        assert chosen([entry("s", ("X", 1, 1))], policy, A=1) == {}


def test_a_server_that_needs_no_replica_is_served() -> None:
    """Without any accelerator."""
    idle = Candidate(accelerator="", replicas=0, cost=0, value=0)
    one = Entry(server=Server(name="s", model="m"), priority=1, rate_per_s=0, candidates=(idle,))
    assert chosen([one], A=0) == {"s": ("", 0)}


@pytest.mark.parametrize("values", [(10, -5), (-5, 10), (0, -1)])
def test_without_limits_the_least_value_is_chosen(values) -> None:
    """Also a negative one; a server without candidates has none."""
    servers = [entry("s", ("A", 1, values[0]), ("B", 1, values[1])), entry("t")]
    found = greedy.unlimited(servers)
    assert {name: each.value for name, each in found.items()} == {"s": min(values)}
