"""A ModelRoute that gets no requests, since another takes them, says which one does."""

import pytest

OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def accepted(kit, *routes):
    """Of the first of them, beside the others."""
    return kit.conditions(*routes)["Accepted"]


def test_the_younger_of_two_says_who_is_older(kit):
    """Accepted is False and names the route and the rule; the older one is not concerned."""
    older = kit.route("older", kit.rule("s"), namespace="team", created=OLD)
    younger = kit.route("younger", kit.rule("t"), created=NEW)
    assert accepted(kit, younger, older) == (
        "False",
        "Shadowed",
        'No request is routed here: "m" goes to the older ModelRoute team/older, rule rules[0]',
    )
    assert accepted(kit, older, younger)[:2] == ("True", "Accepted")


@pytest.mark.parametrize(("regex", "status"), [("^/v1/chat", "True"), (None, "False")])
def test_a_rule_with_conditions_leaves_something(kit, regex, status):
    """Requests that no rule of the older route fits come to the younger one."""
    older = kit.route("older", kit.rule("s", regex=regex), created=OLD)
    assert accepted(kit, kit.route("younger", kit.rule("t"), created=NEW), older)[0] == status


def test_a_rule_without_weights_takes_nothing(kit):
    """What it would get goes to the next route."""
    dark = kit.route("older", kit.rule(s=0), kit.rule("s"), created=OLD)
    younger = kit.route("younger", kit.rule("t"), created=NEW)
    assert accepted(kit, younger, dark)[0] == "True"


def test_a_model_name_goes_before_adapters(kit):
    """Even of a younger route, and whatever its rules; a route with other names is shadowed in part."""
    model = kit.route("model", kit.rule("s", regex="^/x"), model="lora", created=NEW)
    whole = kit.route("whole", kit.rule("t"), model="", adapters=["lora"], created=OLD)
    told = '"lora" is the modelName of ModelRoute default/model'
    assert accepted(kit, whole, model) == ("False", "Shadowed", f"No request is routed here: {told}")
    part = kit.route("part", kit.rule("t"), model="base", adapters=["lora"], created=OLD)
    assert accepted(kit, part, model) == (
        "True",
        "PartlyShadowed",
        f"Requests for some names are not routed here: {told}",
    )


def test_adapters_are_shadowed_by_older_ones(kit):
    """Two routes that list one adapter are asked by their age as well."""
    older = kit.route("older", kit.rule("s"), model="a", adapters=["lora"], created=OLD)
    younger = kit.route("younger", kit.rule("t"), model="", adapters=["lora"], created=NEW)
    assert accepted(kit, younger, older)[1] == "Shadowed"


def test_a_thousand_routes_for_one_name_are_affordable(kit):
    """The foremost of them are enough to tell the last."""
    routes = [
        kit.route(f"r{n}", kit.rule("s"), created=f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z")
        for n in range(999)
    ]
    index = kit.index_of(*routes)
    assert len(index.rivals_of(routes[-1])) == 64
    assert index.rivals_of(routes[-1])[0] is routes[0]
