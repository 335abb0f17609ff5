"""What a ModelRoute's conditions say, case by case."""

import pytest

from headgate import api

LLM = {"app": "llm"}


def test_a_route_whose_targets_are_ready_is_ready(kit):
    """All three conditions hold when the ModelServer exists and has a ready Pod."""
    found = kit.conditions(
        kit.route("r", kit.rule("s")), kit.server("s", LLM), kit.pod("p", LLM), kit.pod("q", LLM, ready=False)
    )
    assert {kind: (status, reason) for kind, (status, reason, _) in found.items()} == {
        "Accepted": ("True", "Accepted"),
        "ResolvedRefs": ("True", "ResolvedRefs"),
        "Ready": ("True", "EndpointsReady"),
    }


def test_a_ready_route_counts_its_endpoints(kit):
    """Ready Pods of all targets count, once each, however many rules or ModelServers lead to one."""
    pods = [kit.pod(f"p{n}", {"app": app}, ready=n != 4) for n, app in enumerate("aaabb")]
    servers = [kit.server(name, {"app": name}) for name in "ab"]

    def told(*rules):
        found = kit.conditions(kit.route("r", *rules), *servers, kit.server("again", {"app": "a"}), *pods)
        status, reason, message = found["Ready"]
        assert (status, reason) == ("True", "EndpointsReady")
        return message

    assert told(kit.rule("a", "b"), kit.rule("b")) == "4 endpoints in 2 ModelServers"
    assert told(kit.rule("b", a=0)) == "1 endpoint in 1 ModelServer"
    assert told(kit.rule("a", "again")) == "3 endpoints in 2 ModelServers"


def test_every_missing_model_server_is_named(kit):
    """ResolvedRefs names each ModelServer that does not exist, once, with its namespace and field."""
    found = kit.conditions(
        kit.route("r", kit.rule("gone", "s"), kit.rule("gone", "away")), kit.server("s", LLM)
    )
    assert found["ResolvedRefs"] == (
        "False",
        "ModelServerNotFound",
        "There is no ModelServer default/gone (spec.rules[0].targetModels[0].modelServerName), "
        "default/away (spec.rules[1].targetModels[1].modelServerName)",
    )
    assert found["Accepted"][0] == "True"


def test_a_model_server_of_another_namespace_is_missing(kit):
    """References are to the route's own namespace."""
    found = kit.conditions(kit.route("r", kit.rule("s")), kit.server("s", LLM, namespace="other"))
    assert found["ResolvedRefs"][:2] == ("False", "ModelServerNotFound")


def test_a_route_without_ready_endpoints_names_its_targets(kit):
    """Ready is False and names the targets of the rule that nobody can serve."""
    found = kit.conditions(
        kit.route("r", kit.rule("s", "t")), kit.server("s", LLM), kit.pod("p", LLM, ready=False)
    )
    assert found["Ready"] == (
        "False",
        "NoReadyEndpoints",
        "rule rules[0] has no ready endpoint in default/s, default/t",
    )


def test_each_rule_needs_a_ready_endpoint(kit):
    """One rule that cannot serve makes the route not ready, and the message names that rule."""
    found = kit.conditions(
        kit.route("r", kit.rule("s"), kit.rule("t")),
        kit.server("s", LLM),
        kit.server("t", {"app": "none"}),
        kit.pod("p", LLM),
    )
    assert found["Ready"] == ("False", "NoReadyEndpoints", "rule rules[1] has no ready endpoint in default/t")


def test_a_target_that_fails_beside_a_good_one_is_told(kit):
    """One ready target per rule is enough to be Ready, but the target that cannot serve is named."""
    found = kit.conditions(
        kit.route("r", kit.rule("s", "t")),
        kit.server("s", LLM),
        kit.server("t", {"app": "none"}),
        kit.pod("p", LLM),
    )
    assert found["Ready"] == (
        "True",
        "EndpointsPartlyReady",
        "1 endpoint in 1 ModelServer; but requests for these targets fail: default/t",
    )


def test_a_target_without_weight_serves_nobody(kit):
    """A ready target of weight 0 does not make a rule ready, and one that is not ready is not missed."""
    around = (kit.server("s", LLM), kit.server("t", {"app": "none"}), kit.pod("p", LLM))
    assert kit.conditions(kit.route("r", kit.rule(s=0)), *around)["Ready"] == (
        "False",
        "NoReadyEndpoints",
        "rule rules[0] has no target with a weight above 0",
    )
    assert kit.conditions(kit.route("r", kit.rule(s=1, t=0)), *around)["Ready"][1] == "EndpointsReady"


def test_a_bad_pattern_is_not_accepted(kit):
    """A rule whose expression RE2 refuses is named by its field path, and its route is not ready."""
    found = kit.conditions(
        kit.route("r", kit.rule("s", regex="(["), kit.rule("s")), kit.server("s", LLM), kit.pod("p", LLM)
    )
    assert found["Accepted"][:2] == ("False", "InvalidPattern")
    assert found["Accepted"][2].startswith("spec.rules[0].modelMatch: ")
    assert found["Ready"][:2] == ("False", "InvalidPattern")
    assert "spec.rules[0].modelMatch" in found["Ready"][2]
    assert found["ResolvedRefs"][0] == "True"


def test_a_rule_that_is_left_out_can_dangle_too(kit):
    """References of a rule with a bad pattern are checked as well, so that all is mended in one go."""
    found = kit.conditions(kit.route("r", kit.rule("gone", regex="([")))
    assert "default/gone" in found["ResolvedRefs"][2]


def test_a_route_without_rules_is_not_ready(kit):
    """Nothing dangles in a route without rules, but it answers nobody."""
    found = kit.conditions(kit.route("r"))
    assert found["ResolvedRefs"][0] == "True"
    assert found["Ready"][:2] == ("False", "NoRules")


def test_a_route_that_no_request_can_name_is_not_accepted(kit):
    """A list of empty adapter names passes the schema but is a route for nothing."""
    nameless = api.ModelRoute(
        metadata=api.ObjectMeta(name="r", namespace="default"),
        spec=api.ModelRouteSpec(lora_adapters=[""], rules=[kit.rule("s")]),
    )
    found = kit.conditions(nameless, kit.server("s", LLM), kit.pod("p", LLM))
    assert found["Accepted"][:2] == ("False", "NoModelName")
    assert found["Ready"][:2] == ("False", "NoModelName")


@pytest.mark.parametrize("length", [20, 250])
def test_messages_are_bounded(kit, length):
    """However many names there are, a message stays within what the API allows, and counts the rest."""
    names = [f"{'x' * length}-{n}" for n in range(256)]
    rules = [kit.rule(*names[start : start + 16]) for start in range(0, 256, 16)]
    found = kit.conditions(kit.route("r", *rules))
    assert all(len(message) <= 32768 for _, _, message in found.values())
    assert found["ResolvedRefs"][2].endswith(" more") == (length == 250)
