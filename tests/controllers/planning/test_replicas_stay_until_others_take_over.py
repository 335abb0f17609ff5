"""From what is best to what a variant has next."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import api
from headgate.controllers.planning.deciding import Member, planned
from headgate.planning.assembling import Decision
from headgate.planning.variants import Variant, VariantProblem

COUNT = st.integers(0, 5)


def variant(name: str, model: str = "m") -> Variant:
    return Variant(
        key=api.ObjectKey("ns", name),
        model=model,
        variant_id=f"{model}-A100-1",
        accelerator="A100",
        count=1,
        class_ref=("c", "k"),
        performance=None,
    )


def decision(replicas: int) -> Decision:
    zero: dict[str, Any] = dict.fromkeys(("cost", "share", "itl_ms", "ttft_ms", "utilization"), 0.0)
    return Decision(replicas=replicas, accelerator="A100", served=1.0, **zero)


@pytest.mark.parametrize(
    ("ready", "replicas"), [(0, (3, 2)), (1, (3, 2)), (2, (1, 2))], ids=["none", "some", "all"]
)
def test_replicas_go_once_those_of_others_are_ready(ready: int, replicas: tuple[int, int]) -> None:
    """Three of one variant are to be one of it and two of another."""
    old, new = variant("old"), variant("new")
    found = planned([Member(old, 3, 3), Member(new, 2, ready)], {old.key: decision(1), new.key: decision(2)})
    assert tuple(each.replicas for each in found.values()) == replicas


def test_variants_of_other_models_are_not_waited_for() -> None:
    """They take over nothing."""
    old, other = variant("old"), variant("other", "n")
    found = planned([Member(old, 3, 3), Member(other, 2, 0)], {old.key: decision(1), other.key: decision(2)})
    assert found[old.key].replicas == 1


@pytest.mark.parametrize(("before", "held"), [(4, 4), (None, 3)])
def test_a_model_that_cannot_be_served_keeps_the_last_plan(before: int | None, held: int) -> None:
    """Or what it has, if there was none."""
    own = variant("own")
    problem = VariantProblem(reason="OptimizationFailed", message="no accelerators")
    [found] = planned([Member(own, 3, 3, before)], {own.key: problem}).values()
    assert (found.replicas, found.allocation, found.failure) == (held, None, "no accelerators")


@given(st.lists(st.tuples(COUNT, COUNT, COUNT, st.sampled_from("mn")), max_size=5), st.randoms())
def test_what_is_next_is_between_now_and_the_best(rows: list[tuple[int, int, int, str]], random: Any) -> None:
    """Never fewer than planned, whatever the order; once everything is ready, it is what was planned."""
    members = [
        Member(variant(f"v{index}", model), current, min(ready, current))
        for index, (current, ready, _, model) in enumerate(rows)
    ]
    decisions = {
        member.variant.key: decision(best) for member, (_, _, best, _) in zip(members, rows, strict=True)
    }
    found = planned(members, decisions)
    shuffled = random.sample(members, len(members))
    assert planned(shuffled, decisions) == found
    for member, (_, _, best, _) in zip(members, rows, strict=True):
        assert found[member.variant.key].replicas in (best, max(best, member.current))
    settled = [
        member._replace(
            current=max(member.current, found[member.variant.key].replicas),
            ready=max(member.current, found[member.variant.key].replicas),
        )
        for member in members
    ]
    after = planned(settled, decisions)
    assert {key: each.replicas for key, each in after.items()} == {
        key: each.replicas for key, each in decisions.items()
    }
