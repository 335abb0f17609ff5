"""What a server could run on, and what a change is worth."""

import msgspec
import pytest

from headgate.planning import reallocating, solving
from headgate.planning.candidates import Entry, candidates, transition_penalty
from headgate.planning.system import (
    Accelerator,
    AllocationData,
    DecodeParms,
    Load,
    Optimizer,
    Performance,
    PrefillParms,
    Server,
    ServiceClass,
    System,
    Target,
)


def performance(acc: str, *parms: float, count: int = 1, batch: int = 16, model: str = "m") -> Performance:
    alpha, beta, gamma, delta = parms
    return Performance(
        name=model,
        acc=acc,
        acc_count=count,
        max_batch_size=batch,
        decode_parms=DecodeParms(alpha=alpha, beta=beta),
        prefill_parms=PrefillParms(gamma=gamma, delta=delta),
    )


LLAMA = (5, 2, 10, 1.5)


def system(
    *,
    rpm: float = 60,
    tokens: tuple[int, int] = (100, 200),
    targets: tuple[float, float, float] = (2000, 500, 0),
    current: AllocationData | None = None,
    accelerators: dict[str, float] | None = None,
    **server: object,
) -> System:
    """One server of the model m, with the profile of `LLAMA` on every accelerator, by their costs."""
    costs = accelerators or {"gpu": 100.0}
    load = Load(arrival_rate=rpm, avg_in_tokens=tokens[0], avg_out_tokens=tokens[1])
    now = msgspec.structs.replace(current or AllocationData(), load=load)
    own = {"name": "s", "class_": "c", "model": "m", "current_alloc": now} | server
    target = Target(model="m", ttft=targets[0], itl=targets[1], tps=targets[2])
    return System(
        accelerators={name: Accelerator(name=name, cost=cost) for name, cost in costs.items()},
        performance={("m", name): performance(name, *LLAMA) for name in costs},
        classes={"c": ServiceClass(name="c", priority=1, model_targets=[target])},
        servers={"s": Server(**own)},
    )


def entry(described: System) -> Entry:
    (found,) = candidates(described, None)
    return found


@pytest.mark.parametrize(
    ("now", "accelerator", "replicas", "cost", "penalty"),
    [
        (("a", 2, 100), "a", 2, 100, 0),
        (("a", 2, 100), "a", 3, 150, 50),
        (("a", 2, 100), "b", 2, 120, 42),
        (("a", 2, 200), "b", 1, 100, -70),
    ],
)
def test_a_change_has_its_penalty(now, accelerator, replicas, cost, penalty) -> None:
    """None for what runs already; another accelerator costs a tenth of both more."""
    current = AllocationData(accelerator=now[0], num_replicas=now[1], cost=now[2])
    assert transition_penalty(current, accelerator, replicas, cost) == pytest.approx(penalty)


@pytest.mark.parametrize(("moved", "is_better"), [(99.9, True), (100.1, False)])
def test_another_accelerator_must_be_much_cheaper(moved, is_better) -> None:
    """Than more replicas of the current one: 1.1 b + 0.1 a < b'."""
    current = AllocationData(accelerator="a", num_replicas=1, cost=100)
    stay = transition_penalty(current, "a", 2, 120)
    assert (transition_penalty(current, "b", 1, moved) < stay) is is_better


@pytest.mark.parametrize(
    ("rpm", "replicas", "itl", "ttft"),
    [
        (30, 1, 9.139, 320.43),
        (60, 1, 13.863, 677.8),
        (90, 2, None, None),
        (150, 2, 19.065, 1170.86),
        (360, 5, None, None),
    ],
)
def test_a_candidate_is_sized(rpm, replicas, itl, ttft) -> None:
    """Replicas, cost and mean latencies."""
    (found,) = entry(system(rpm=rpm)).candidates
    assert (found.accelerator, found.replicas, found.cost) == ("gpu", replicas, 100 * replicas)
    assert itl is None or found.itl_ms == pytest.approx(itl, rel=1e-4)
    assert ttft is None or found.ttft_ms == pytest.approx(ttft, rel=1e-4)


def test_accelerators_of_a_replica_are_paid_for() -> None:
    """Each of them; one of L40S costs 32."""
    described = system(rpm=480, tokens=(128, 512), targets=(1000, 30, 0), accelerators={"L40S": 16})
    slow = performance("L40S", 22.619, 0.181, 226.19, 0.018, count=2, batch=512)
    described = msgspec.structs.replace(described, performance={("m", "L40S"): slow})
    (found,) = entry(described).candidates
    assert (found.replicas, found.cost, found.units) == (4, 128, 2)


def test_a_target_of_throughput_is_met() -> None:
    """2 tokens a second need 0.01 requests a second; more than that may arrive."""
    (found,) = entry(system(rpm=0.6, targets=(2000, 500, 2))).candidates
    assert found.replicas == 1
    assert found.itl_ms == pytest.approx(7.03123, rel=1e-4)
    assert found.ttft_ms == pytest.approx(162.342, rel=1e-4)
    (busy,) = entry(system(rpm=360, targets=(2000, 500, 2))).candidates
    assert busy.replicas == 5


def test_totals_by_type_have_the_limit() -> None:
    """50 tokens a second on one of four accelerators."""
    described = system(rpm=1, targets=(0, 0, 50), accelerators={"A100": 1})
    described = msgspec.structs.replace(
        described,
        performance={("m", "A100"): performance("A100", 10, 2, 5, 0.1, batch=13)},
        capacity={"A100": 4},
    )
    found = solving.as_reference(described)
    total = found.allocation_by_type["A100"]
    assert (total.count, total.limit, total.cost) == (1, 4, 1)
    assert found.allocations["s"].itl_average == pytest.approx(13.33797, rel=1e-4)
    assert found.allocations["s"].ttft_average == pytest.approx(21.68987, rel=1e-4)


def test_without_load_the_minimum_runs() -> None:
    """On no accelerator if it is 0."""
    (idle,) = entry(system(rpm=0, min_num_replicas=1)).candidates
    assert (idle.replicas, idle.cost, idle.itl_ms, idle.ttft_ms) == (1, 100, 7, 11.5)
    assert idle.capacity_per_s / 1000 == pytest.approx(0.3298969)
    saturated = {rpm: idle.is_saturated(rpm) for rpm in (0, 15_000, 19_793, 19_794, 25_000)}
    assert saturated == {0: False, 15_000: False, 19_793: False, 19_794: True, 25_000: True}
    (none,) = entry(system(rpm=0)).candidates
    assert (none.accelerator, none.replicas, none.cost, none.value) == ("", 0, 0, 0)


@pytest.mark.parametrize(
    ("keep", "current", "names"),
    [
        (False, "gpu-b", ["gpu-a", "gpu-b", "gpu-c"]),
        (True, "", ["gpu-a", "gpu-b", "gpu-c"]),
        (True, "gpu-b", ["gpu-b"]),
        (True, "gpu-x", []),
    ],
)
def test_a_server_may_have_to_keep_its_accelerator(keep, current, names) -> None:
    """One that is unknown leaves no candidate."""
    described = system(
        accelerators={"gpu-a": 1, "gpu-b": 2, "gpu-c": 3},
        keep_accelerator=keep,
        current=AllocationData(accelerator=current, num_replicas=1, cost=2),
    )
    found = entry(described)
    assert sorted(each.accelerator for each in found.candidates) == names
    assert bool(found.rejected) is (names == [])


def test_what_a_server_cannot_run_on_has_a_reason() -> None:
    """No profile, no target, or a target that cannot be met."""
    described = system(accelerators={"gpu": 1, "new": 1})
    described = msgspec.structs.replace(described, performance={("m", "gpu"): performance("gpu", *LLAMA)})
    assert [each.accelerator for each in entry(described).candidates] == ["gpu"]
    described = msgspec.structs.replace(described, performance={})
    assert entry(described).rejected == (("", "no accelerator has a profile of m"),)
    kept = system(keep_accelerator=True, current=AllocationData(accelerator="gpu", num_replicas=1))
    kept = msgspec.structs.replace(kept, performance={})
    assert entry(kept).rejected == (("gpu", "there is no profile of m"),)
    assert entry(system(class_="d")).rejected == (("", "class d has no target for the model m"),)
    (infeasible,) = entry(system(targets=(1, 0.1, 0))).rejected
    assert infeasible.reason.startswith("TTFT of 1 ms cannot be met: an idle replica has 16")
    huge = system(rpm=1e12)
    assert "more than 100000" in entry(huge).rejected[0].reason


def test_batches_depend_on_the_length_of_responses() -> None:
    """Where the profile says for which length its batch size holds; that of the server comes first."""
    described = system()
    short = msgspec.structs.replace(performance("gpu", *LLAMA), at_tokens=100)
    described = msgspec.structs.replace(described, performance={("m", "gpu"): short})
    assert entry(described).candidates[0].batch == 8
    assert entry(system(max_batch_size=12)).candidates[0].batch == 12
    assert entry(system()).candidates[0].batch == 16


GREEDY = System(
    accelerators={name: Accelerator(name=name, cost=cost) for name, cost in (("A100", 1), ("H100", 2))},
    performance={
        (each.name, each.acc): each
        for each in (
            performance("A100", 10, 2, 5, 0.1, model="7b"),
            performance("H100", 8, 1.5, 3, 0.08, model="7b"),
            performance("A100", 15, 3, 8, 0.15, count=2, model="13b"),
            performance("H100", 12, 2.5, 6, 0.12, model="13b"),
        )
    },
    classes={
        name: ServiceClass(
            name=name,
            priority=priority,
            model_targets=[
                Target(model=model, ttft=ttft, itl=itl, tps=tps) for model, ttft, itl, tps in targets
            ],
        )
        for name, priority, targets in (
            ("high", 1, [("7b", 20, 400, 15), ("13b", 25, 500, 12)]),
            ("medium", 5, [("7b", 22, 450, 13), ("13b", 28, 550, 10)]),
            ("low", 10, [("7b", 25, 500, 10)]),
        )
    },
    servers={
        name: Server(
            name=name,
            class_=of,
            model=model,
            max_batch_size=batch,
            current_alloc=AllocationData(load=Load(arrival_rate=rpm, avg_in_tokens=i, avg_out_tokens=o)),
        )
        for name, model, of, rpm, i, o, batch in (
            ("server1", "7b", "high", 30, 100, 200, 512),
            ("server2", "13b", "medium", 20, 150, 300, 256),
            ("server3", "7b", "low", 10, 80, 150, 128),
        )
    },
    capacity={"A100": 4, "H100": 2},
)


def test_capacities_of_the_reference_system_are_reproduced() -> None:
    """For the mean, as its unit tests have it."""
    found = {
        (each.server.name, one.accelerator): one.capacity_per_s
        for each in candidates(GREEDY, None)
        for one in each.candidates
    }
    assert found == {
        ("server1", "A100"): pytest.approx(0.191792, rel=1e-4),
        ("server1", "H100"): pytest.approx(0.500821, rel=1e-4),
        ("server2", "H100"): pytest.approx(0.0490599, rel=1e-4),
        ("server3", "A100"): pytest.approx(0.663717, rel=1e-4),
        ("server3", "H100"): pytest.approx(1.22779, rel=1e-4),
    }


def test_a_system_without_limits_is_solved_server_by_server() -> None:
    """One without a candidate is named with its reason, and the others are solved."""
    described = msgspec.structs.replace(system(rpm=360), optimizer=Optimizer(unlimited=True))
    other = Server(name="t", class_="c", model="unknown")
    described = msgspec.structs.replace(described, servers={**described.servers, "t": other})
    for found in (solving.as_reference(described), solving.exactly(described, None)):
        assert found.allocations["s"].num_replicas == 5
        assert found.unserved == {"t": "class c has no target for the model unknown"}
        assert {
            kind: (each.count, each.limit, each.cost) for kind, each in found.allocation_by_type.items()
        } == {"gpu": (5, None, 500)}


def test_the_cheapest_accelerator_is_taken() -> None:
    """By both ways to solve."""
    described = system(accelerators={"a": 30, "b": 20, "c": 40})
    described = msgspec.structs.replace(described, optimizer=Optimizer(unlimited=True))
    for found in (solving.as_reference(described), solving.exactly(described)):
        assert found.allocations["s"].accelerator == "b"


def test_servers_that_share_a_demand_are_planned_together() -> None:
    """Their loads are added up, and each gets a share of it; the reference sizes both for themselves."""
    described = system(rpm=75, accelerators={"gpu": 100, "big": 10_000}, keep_accelerator=True)
    servers = {
        name: Server(
            name=name,
            class_="c",
            model="m",
            keep_accelerator=True,
            demand="chat",
            current_alloc=AllocationData(
                accelerator=accelerator,
                load=Load(arrival_rate=rpm, avg_in_tokens=100, avg_out_tokens=200),
            ),
        )
        for name, accelerator, rpm in (("s", "gpu", 75), ("t", "big", 15))
    }
    described = msgspec.structs.replace(described, servers=servers, optimizer=Optimizer(unlimited=True))
    found = solving.exactly(described, None)
    assert {name: each.num_replicas for name, each in found.allocations.items()} == {"s": 2, "t": 0}
    assert found.allocations["s"].load.arrival_rate == pytest.approx(90)
    assert (found.allocations["s"].share, found.allocations["t"].share) == (1, 0)
    assert solving.as_reference(described).allocations["t"].num_replicas == 1


def running(accelerator: str = "gpu", replicas: int = 1, cost: float = 100) -> AllocationData:
    return AllocationData(accelerator=accelerator, num_replicas=replicas, cost=cost)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (None, running(), ("none", "gpu", 0, 1, 100)),
        (running(), None, ("gpu", "none", 1, 0, -100)),
        (running(), running("big", 3, 450), ("gpu", "big", 1, 3, 350)),
        (running(), running(), ("gpu", "gpu", 1, 1, 0)),
    ],
)
def test_two_allocations_have_a_difference(old, new, told) -> None:
    """Also to and from nothing."""
    found = reallocating.difference(old, new)
    assert found is not None
    assert msgspec.structs.astuple(found) == told
    assert reallocating.difference(None, None) is None


@pytest.mark.parametrize(("rpm", "increment"), [(360, 4), (60, 0), (30, 0)])
def test_a_server_is_scaled_where_it_runs(rpm, increment) -> None:
    """By the replicas that its load needs more than there are."""
    found = reallocating.scale(system(rpm=rpm, current=running()), "s")
    assert found is not None
    assert (found.candidate.accelerator, found.increment) == ("gpu", increment)


def test_a_server_without_load_is_scaled_to_its_minimum() -> None:
    """Which is a change as well."""
    described = system(rpm=0, current=running(replicas=3))
    for minimum, increment in ((0, -3), (1, -2), (5, 2)):
        server = msgspec.structs.replace(described.servers["s"], min_num_replicas=minimum)
        found = reallocating.scale(msgspec.structs.replace(described, servers={"s": server}), "s")
        assert found is not None
        assert found.increment == increment


def test_a_server_is_reallocated_to_the_cheapest_accelerator() -> None:
    """Whatever runs now; the one that cannot meet the targets is no choice."""
    described = system(
        rpm=360,
        accelerators={"gpu": 100, "small": 90, "slow": 1},
        keep_accelerator=True,
        current=running(),
    )
    slow = performance("slow", 5000, 2, 10, 1.5)
    described = msgspec.structs.replace(described, performance={**described.performance, ("m", "slow"): slow})
    found = reallocating.reallocate(described, "s")
    assert found is not None
    assert (found.accelerator, found.replicas, found.cost) == ("small", 5, 450)


def test_what_is_unknown_or_impossible_is_not_scaled() -> None:
    """A server, an accelerator, a target."""
    described = system(current=running())
    assert reallocating.scale(described, "t") is None
    assert reallocating.reallocate(described, "t") is None
    impossible = system(targets=(1, 0.1, 0), current=running())
    assert reallocating.scale(impossible, "s") is None
    assert reallocating.reallocate(impossible, "s") is None
    assert reallocating.scale(system(), "s") is None  # it runs on nothing
    assert reallocating.scale(system(current=running("other")), "s") is None
