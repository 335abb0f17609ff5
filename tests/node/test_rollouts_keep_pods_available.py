"""The plan of a rollout: never below the floor, never above the ceiling, and always to an end."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.api import apps
from headgate.node import deployment_plan
from headgate.node.deployment_plan import SetView, Wish


@st.composite
def wishes(draw) -> Wish:
    replicas = draw(st.integers(0, 8))
    surge, unavailable = draw(st.integers(0, 3)), draw(st.integers(0, min(3, replicas)))
    return Wish(replicas, surge or (0 if unavailable else 1), unavailable)


@st.composite
def views(draw, name: str, sized_for: int | None) -> SetView:
    desired = draw(st.integers(0, 6))
    return SetView(name, desired, draw(st.integers(0, 8)), desired, sized_for)


@settings(deadline=None)
@given(st.data(), wishes(), st.integers(0, 3), st.booleans())
def test_one_step_keeps_the_limits(data, wish, old_sets, scaled):
    """From any state, no step takes available Pods below the floor or wanted Pods above the ceiling."""
    sized_for = wish.replicas + 1 if scaled else wish.replicas
    old = [data.draw(views(f"old-{number}", sized_for)) for number in range(old_sets)]
    new = data.draw(views("new", sized_for))
    sizes = deployment_plan.plan(wish, new, old)
    before = sum(each.surviving for each in (*old, new))
    after = sum(min(each.available, sizes[each.name]) for each in (*old, new))
    assert after >= min(wish.floor, before)
    assert sum(sizes.values()) <= max(wish.ceiling, sum(each.desired for each in (*old, new)))
    assert min(sizes.values()) >= 0


@settings(deadline=None)
@given(st.data(), wishes(), st.integers(0, 3), st.booleans())
def test_a_rollout_ends_when_pods_become_ready(data, wish, old_sets, recreate):
    """If new Pods become available sooner or later, only they remain, in the wanted number."""
    if recreate:
        wish = Wish(wish.replicas, 0, wish.replicas, recreate=True)
    sizes = {f"old-{number}": data.draw(st.integers(0, 5)) for number in range(old_sets)} | {"new": 0}
    healthy = {name: data.draw(st.booleans()) or name == "new" for name in sizes}
    for _ in range(40):
        sets = [SetView(name, size, size if healthy[name] else 0, size) for name, size in sizes.items()]
        sizes = deployment_plan.plan(wish, sets[-1], sets[:-1])
    assert sizes == dict.fromkeys(sizes, 0) | {"new": wish.replicas}


@pytest.mark.parametrize(
    ("replicas", "limits", "surge", "unavailable"),
    [
        (4, {}, 1, 1),
        (3, {}, 1, 0),
        (1, {}, 1, 0),
        (10, {"maxSurge": "15%", "maxUnavailable": "15%"}, 2, 1),
        (4, {"maxSurge": 0, "maxUnavailable": "10%"}, 0, 1),
        (2, {"maxSurge": 2, "maxUnavailable": 5}, 2, 2),
    ],
)
def test_percentages_round_as_in_kubernetes(replicas, limits, surge, unavailable):
    """Surge rounds up, unavailable rounds down, and both 0 would never get anywhere."""
    spec = msgspec.convert(
        {"selector": {}, "template": {}, "replicas": replicas, "strategy": {"rollingUpdate": limits}},
        apps.DeploymentSpec,
    )
    wish = deployment_plan.wish(spec)
    assert (wish.max_surge, wish.max_unavailable) == (surge, unavailable)


def test_a_limit_that_is_no_number_is_named():
    """The error has the field and the value."""
    spec = msgspec.convert(
        {"selector": {}, "template": {}, "strategy": {"rollingUpdate": {"maxSurge": "many"}}},
        apps.DeploymentSpec,
    )
    with pytest.raises(ValueError, match=r"rollingUpdate: 'many'"):
        deployment_plan.wish(spec)


def test_scaling_in_the_middle_of_a_rollout_shares_the_room():
    """A rollout that hangs doesn't get all new Pods: sizes grow in proportion."""
    old, new = SetView("old", 3, 3, 3, 4), SetView("new", 2, 0, 2, 4)
    assert deployment_plan.plan(Wish(8, 2, 2), new, [old]) == {"old": 6, "new": 4}


def test_recreate_waits_for_terminating_pods():
    """As long as one Pod of an old set exists, nothing new starts."""
    wish = Wish(2, 0, 2, recreate=True)
    new = SetView("new", 0, 0, 0)
    assert deployment_plan.plan(wish, new, [SetView("old", 0, 0, 1)]) == {"old": 0, "new": 0}
    assert deployment_plan.plan(wish, new, [SetView("old", 0, 0, 0)]) == {"old": 0, "new": 2}
