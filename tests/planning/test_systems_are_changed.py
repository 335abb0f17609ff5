"""The same system with other objectives, prices, accelerators and demands."""

from pathlib import Path

import pytest

from headgate.planning import solving, system
from headgate.planning.changing import (
    Capacity,
    Change,
    ChangeError,
    Demand,
    Price,
    Slo,
    changed,
    differences,
    parse_capacity,
    parse_demand,
    parse_price,
    parse_slo,
)
from headgate.planning.system import System

EXAMPLE = Path(__file__).parents[2] / "examples" / "planning" / "system.json"


@pytest.fixture
def described() -> System:
    """Two classes, two models, two accelerators, four servers."""
    return system.read(EXAMPLE.read_bytes())


@pytest.mark.parametrize(
    ("of", "changes"),
    [
        ("", {("Premium", "llama-8b"), ("Premium", "llama-70b"), ("Free", "llama-8b")}),
        ("Premium", {("Premium", "llama-8b"), ("Premium", "llama-70b")}),
        ("llama-8b", {("Premium", "llama-8b"), ("Free", "llama-8b")}),
        ("Free/llama-8b", {("Free", "llama-8b")}),
    ],
)
def test_an_objective_is_changed_where_it_is_named(described, of, changes) -> None:
    """By class, by model, by both, or everywhere."""
    other = changed(described, [Slo(of, "ttft", 321)])
    found = {
        (name, target.model)
        for name, each in other.classes.items()
        for target in each.model_targets
        if target.ttft == 321
    }
    assert found == changes


def test_a_price_holds_for_what_runs_as_well(described) -> None:
    """So that the change of the price alone makes no change of the plan dearer."""
    other = changed(described, [Price("H100", 200)])
    assert other.accelerators["H100"].cost == 200
    assert other.servers["reports:default"].current_alloc.cost == 800
    assert other.servers["batch:default"].current_alloc.cost == 240


def test_accelerators_are_changed_by_type(described) -> None:
    """Of a system without limits, only the type that is named becomes limited."""
    assert changed(described, [Capacity("L40S", 8)]).capacity == {"H100": 12, "L40S": 8}
    unlimited = system.read(EXAMPLE.read_bytes().replace(b'"unlimited": false', b'"unlimited": true'))
    found = solving.exactly(changed(unlimited, [Capacity("L40S", 1)]))
    assert found.allocation_by_type["L40S"].count <= 1
    assert found.unserved == {}
    assert {name: each.limit for name, each in found.allocation_by_type.items()} == {"L40S": 1, "H100": None}


def test_a_demand_is_changed_by_model_server_or_its_name(described) -> None:
    """A new rate is that of all servers of the demand together."""
    for of in ("chat", "chat-l40s:default"):
        other = changed(described, [Demand(of, 600)])
        rates = [
            other.servers[f"chat-{kind}:default"].current_alloc.load.arrival_rate for kind in ("h100", "l40s")
        ]
        assert sorted(rates) == [0, 600]
        found = solving.exactly(other)
        assert sum(
            found.allocations[f"chat-{kind}:default"].load.arrival_rate for kind in ("h100", "l40s")
        ) == (pytest.approx(600))
    doubled = changed(described, [Demand("llama-8b", factor=2)])
    assert doubled.servers["batch:default"].current_alloc.load.arrival_rate == 1800
    longer = changed(described, [Demand("reports:default", 270, tokens=(2048, 100))])
    load = longer.servers["reports:default"].current_alloc.load
    assert (load.arrival_rate, load.avg_in_tokens, load.avg_out_tokens) == (270, 2048, 100)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (Slo("Gold", "ttft", 1), "no class or model with targets Gold; there are Premium/llama-8b, "),
        (Price("B200", 1), "there is no accelerator B200; there are H100, L40S"),
        (Capacity("B200", 1), "there is no type of accelerators B200; there are H100, L40S"),
        (Demand("m", 1), "there is no server, demand or model m; there are llama-70b, llama-8b"),
    ],
)  # fmt: skip
def test_a_change_of_nothing_is_an_error(described, change: Change, told) -> None:
    """With what there is."""
    with pytest.raises(ChangeError) as error:
        changed(described, [change])
    assert told in str(error.value)


def test_a_load_needs_lengths(described) -> None:
    """If there was none before."""
    silent = changed(described, [Demand("reports:default", 0, tokens=(0, 0))])
    with pytest.raises(ChangeError, match="give the lengths of prompts and responses"):
        changed(silent, [Demand("reports:default", 60)])


def test_changes_are_made_in_order(described) -> None:
    """The last one counts."""
    other = changed(described, [Price("H100", 1), Slo("Free", "itl", 7), Price("H100", 2)])
    assert (other.accelerators["H100"].cost, other.classes["Free"].model_targets[0].itl) == (2, 7)
    assert described.accelerators["H100"].cost == 400


def test_two_plans_have_differences(described) -> None:
    """Of the servers that change."""
    before = solving.exactly(described)
    assert differences(before, before) == {}
    found = differences(before, solving.exactly(changed(described, [Slo("Premium", "ttft", 300)])))
    assert set(found) == {"chat-h100:default", "chat-l40s:default"}
    assert (found["chat-h100:default"].old_num_replicas, found["chat-h100:default"].new_num_replicas) == (
        1,
        2,
    )
    assert found["chat-h100:default"].cost_diff == 400


@pytest.mark.parametrize(
    ("read", "text", "change"),
    [
        (parse_slo("ttft"), "300", Slo("", "ttft", 300)),
        (parse_slo("itl"), "Premium/meta/llama=20.5", Slo("Premium/meta/llama", "itl", 20.5)),
        (parse_slo("percentile"), "99", Slo("", "percentile", 99)),
        (parse_price, "L40S=100", Price("L40S", 100)),
        (parse_capacity, "NVIDIA-L40S=8", Capacity("NVIDIA-L40S", 8)),
        (parse_demand, "x1.5", Demand("", factor=1.5)),
        (parse_demand, "a=b=600", Demand("a=b", 600)),
        (parse_demand, "m=600,512,256", Demand("m", 600, tokens=(512, 256))),
    ],
)
def test_changes_are_read(read, text, change) -> None:
    """What they are for, and the value after the last equals sign."""
    assert read(text) == change


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (parse_slo("ttft"), "fast"),
        (parse_slo("ttft"), "-1"),
        (parse_slo("ttft"), "nan"),
        (parse_slo("percentile"), "100"),
        (parse_price, "100"),
        (parse_capacity, "8"),
        (parse_capacity, "H100=many"),
        (parse_capacity, "H100=-1"),
        (parse_capacity, "H100=123456789"),
        (parse_demand, "m="),
        (parse_demand, "m=1,2"),
        (parse_demand, "m=1,2,0"),
        (parse_demand, "m=xx"),
    ],
)
def test_what_is_no_change_is_refused(read, text) -> None:
    """With the value that is wrong."""
    with pytest.raises(ValueError, match=r"is|no accelerator|at least"):
        read(text)
