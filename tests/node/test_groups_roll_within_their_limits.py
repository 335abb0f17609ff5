"""The plan of a LeaderWorkerSet, under every order in which groups may become ready."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.node.leaderworkerset_plan import Group, Step, Wish, plan

OLD, NEW, STARTING = Group(True, False), Group(True, True), Group(False, True)


def test_one_group_after_the_other_from_the_last():
    """With maxUnavailable 1, the next group waits until the one before is ready."""
    wanted = Wish(3, 0, 1, 0)
    groups = {0: OLD, 1: OLD, 2: OLD}
    assert plan(wanted, groups, 3) == Step(3, 2)
    groups[2] = STARTING
    assert plan(wanted, groups, 2) == Step(3, 2)
    groups[2] = NEW
    assert plan(wanted, groups, 2) == Step(3, 1)


def test_a_surge_group_comes_before_any_other_goes():
    """With maxUnavailable 0, a group is replaced once the surge group serves in its place."""
    wanted = Wish(2, 1, 0, 0)
    groups = {0: OLD, 1: OLD}
    assert plan(wanted, groups, 2) == Step(3, 2)
    groups[2] = STARTING
    assert plan(wanted, groups, 2) == Step(3, 2)
    groups[2] = NEW
    assert plan(wanted, groups, 2) == Step(3, 1)
    groups |= {1: NEW, 0: NEW}
    assert plan(wanted, groups, 0) == Step(2, 0)


def test_groups_below_the_partition_are_left():
    """A canary: only the groups from the partition on are released."""
    groups = {0: OLD, 1: OLD, 2: NEW}
    assert plan(Wish(3, 0, 3, 2), groups, 2) == Step(3, 2)


def test_a_set_that_serves_nothing_rolls_as_well():
    """The limit of unavailable groups is exceeded already, and the rollout is the way out."""
    broken = Group(False, False)
    groups = dict.fromkeys(range(3), broken)
    assert plan(Wish(3, 0, 1, 0), groups, 3) == Step(3, 2)
    groups[2] = NEW
    assert plan(Wish(3, 0, 1, 0), groups, 2) == Step(3, 1)


def test_scaling_alone_creates_no_surge():
    """A surge is for rollouts; groups that are only starting are none."""
    assert plan(Wish(3, 2, 1, 0), {0: NEW}, 0) == Step(3, 0)
    assert plan(Wish(1, 1, 1, 0), {0: NEW, 1: NEW, 2: NEW}, 0) == Step(1, 0)


@st.composite
def rollouts(draw: st.DrawFn) -> tuple[Wish, st.DataObject]:
    replicas = draw(st.integers(1, 6))
    surge = draw(st.integers(0, replicas))
    unavailable = draw(st.integers(0 if surge else 1, replicas))
    return Wish(replicas, surge, unavailable, draw(st.integers(0, replicas))), draw(st.data())


@given(rollouts())
@settings(max_examples=300, deadline=None)
def test_a_rollout_keeps_its_limits_and_ends(case: tuple[Wish, st.DataObject]):
    """Ready groups never fall below the floor, groups never exceed the surge, and all are updated at last."""
    wanted, data = case
    groups = dict.fromkeys(range(wanted.replicas), OLD)
    released = wanted.replicas
    for _ in range(200):
        step = plan(wanted, groups, released)
        assert wanted.partition <= step.released <= max(released, wanted.partition)
        assert step.groups <= wanted.replicas + wanted.max_surge
        released = step.released
        groups = {number: group for number, group in groups.items() if number < step.groups}
        for number in range(step.groups):
            if number not in groups or (number >= released and not groups[number].updated):
                groups[number] = Group(False, number >= released)
        ready = sum(group.ready for group in groups.values())
        assert ready >= wanted.replicas - wanted.max_unavailable
        starting = [number for number, group in groups.items() if not group.ready]
        if starting:
            number = data.draw(st.sampled_from(starting))
            groups[number] = Group(True, groups[number].updated)
        elif step == plan(wanted, groups, released) and set(groups) == set(range(step.groups)):
            break
    else:
        raise AssertionError("the rollout does not end")
    updated = {number for number, group in groups.items() if group.updated}
    assert updated == set(range(wanted.partition, step.groups))
    assert wanted.partition > 0 or step.groups == wanted.replicas


@pytest.mark.parametrize("unavailable", [0, 1, 2**30, 2**31 - 1])
def test_a_plan_costs_what_exists(unavailable):
    """Not what is wanted: the node must not stop for a typing error."""
    many = 2**31 - 1
    for groups in ({}, {0: OLD, 1: NEW, 2: STARTING, many - 1: OLD}):
        assert plan(Wish(many, many, unavailable, 0), groups, many).groups >= many
