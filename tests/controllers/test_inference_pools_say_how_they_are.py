"""The conditions of an InferencePool: its picker, who leads to it, who shares its Pods, its endpoints."""

import pytest

LLM = {"app": "llm"}


@pytest.fixture
def told(kit):
    """Status, reason and message of one condition of the first object, beside the others."""
    return lambda condition, *objects: kit.conditions(*objects)[condition]


def test_a_pool_that_serves_says_so(kit):
    """Every condition of both versions; v1alpha1 has no picker to tell of."""
    pods = [kit.pod("a", LLM), kit.pod("b", LLM, ready=False)]
    found = kit.conditions(kit.inference_pool("pool", LLM, models="m"), *pods)
    assert {each: status for each, (status, *_) in found.items()} == {
        "Accepted": "True",
        "ResolvedRefs": "True",
        "Routed": "True",
        "Conflicted": "False",
        "Ready": "True",
    }
    assert found["Ready"][1:] == ("EndpointsReady", "1 of 2 Pods ready")
    old = kit.conditions(kit.inference_pool("pool", LLM, group=kit.old, models="m"), *pods)
    assert old == {each: said for each, said in found.items() if each != "ResolvedRefs"}


def test_endpoints_are_counted_by_ports(kit, told):
    """Where each of several ports of a Pod is one."""
    pool = kit.inference_pool("pool", LLM, ports=(8000, 8001))
    assert told("Ready", pool, kit.pod("a", LLM), kit.pod("b", LLM, ready=False))[2] == (
        "2 endpoints ready, of 2 ports of 2 Pods"
    )


@pytest.mark.parametrize(
    ("labels", "port", "reason"),
    [({}, 8000, "EmptySelector"), ({"app": "no"}, 8000, "NoPodsSelected"), (LLM, 0, "NoReadyEndpoints")],
)
def test_a_pool_without_endpoints_says_why(kit, told, labels, port, reason):
    """It selects nothing, or nobody, or has no port."""
    pool = kit.inference_pool("pool", labels, group=kit.old, ports=(port,))
    assert told("Ready", pool, kit.pod("a", LLM))[:2] == ("False", reason)


def test_a_pool_that_nothing_names_says_how_to_reach_it(kit, told):
    """Routed is False, with the two ways to change that."""
    status, reason, message = told("Routed", kit.inference_pool("pool", LLM))
    assert (status, reason) == ("False", "NoRoute")
    assert "spec.poolRef of an InferenceModel (group inference.networking.k8s.io)" in message
    assert "annotation headgate.dev/models" in message


def test_who_leads_to_a_pool_is_told(kit, told):
    """InferenceModels of its own version and namespace, and names of its annotation."""
    pool = kit.inference_pool("pool", LLM, models="x, *")
    others = [
        kit.inference_model("a"),
        kit.inference_model("b", "other"),
        kit.inference_model("younger", "other", created="2026-01-02T00:00:00Z"),
        kit.inference_model("c", group=kit.old),
        kit.inference_model("d", namespace="team"),
        kit.inference_model("e", ""),
    ]
    assert told("Routed", pool, *others) == (
        "True",
        "Routed",
        "By InferenceModels that name it: default/a, default/b and names in its annotation "
        "headgate.dev/models: x, *",
    )


def test_models_that_lost_their_name_do_not_lead_to_the_pool(kit, told):
    """To an older one of another pool, or to a ModelRoute; who has it is told."""
    pool, young = kit.inference_pool("pool", LLM), "2026-01-02T00:00:00Z"
    lost = kit.inference_model("lost", created=young)
    elsewhere = kit.inference_model("i", pool="other", created="2026-01-01T00:00:00Z")
    taken = '"m" goes to the older InferenceModel default/i, rule targetModels'
    other = kit.inference_pool("other", LLM)
    assert told("Routed", pool, lost, elsewhere, other) == (
        "False",
        "Shadowed",
        f"No request is routed here: {taken}",
    )
    assert told("Routed", pool, lost, elsewhere)[1] == "Routed"  # while the other pool does not exist
    by_route = '"m" goes to ModelRoute default/r, rule rules[0]'
    kept, route = kit.inference_model("kept", "n"), kit.route("r", kit.rule("s"))
    assert told("Routed", pool, lost, kept, route) == (
        "True",
        "PartlyShadowed",
        f"By InferenceModels that name it: default/kept. Not for some names: {by_route}",
    )


def test_a_name_that_is_only_reserved_leads_nowhere(kit, told):
    """Whoever names the pool for that need not be told to name it."""
    status, reason, message = told("Routed", kit.inference_pool("pool", LLM), kit.inference_model("r", a=0))
    assert (status, reason) == ("False", "NamesReserved")
    assert message == "No request is routed here: names are only reserved, by InferenceModel default/r"


def test_names_that_others_have_are_told(kit, told):
    """A ModelRoute or an InferenceModel for the name goes first, and of two pools the older."""
    route = kit.route("r", kit.rule("s"))
    taken = '"m" goes to ModelRoute default/r, rule rules[0]'
    pool = kit.inference_pool("pool", LLM, models="m")
    assert told("Routed", pool, route) == ("False", "Shadowed", f"No request is routed here: {taken}")
    both = kit.inference_pool("pool", LLM, models="m,n")
    status, reason, message = told("Routed", both, route)
    assert (status, reason) == ("True", "PartlyShadowed")
    assert message.endswith(f"headgate.dev/models: n. Not for some names: {taken}")
    model = kit.inference_model("i", pool="other")
    assert told("Routed", pool, model, kit.inference_pool("other", LLM))[1] == "Shadowed"
    assert told(
        "Routed", kit.inference_pool("z", LLM, models="*"), kit.inference_pool("a", LLM, models="*")
    ) == (
        "False",
        "Shadowed",
        'No request is routed here: "*" goes to the older InferencePool default/a, rule models',
    )


@pytest.mark.parametrize(
    ("service", "status", "part"),
    [
        ("ClusterIP", "True", "The picker exists"),
        ("ExternalName", "False", "Service default/epp is of type ExternalName"),
        (
            None,
            "False",
            "there is no Service default/epp, or it may not be read. Headgate's gateway picks itself and "
            "serves; gateways that ask the picker refuse requests",
        ),
    ],
)
def test_a_picker_that_is_none_is_told(kit, told, service, status, part):
    """ResolvedRefs is False with the reason of the reference; the pool is ready all the same."""
    pool = kit.inference_pool("pool", LLM, picker="epp")
    others = [kit.pod("a", LLM), *([kit.service("epp", kind=service)] if service else [])]
    found = told("ResolvedRefs", pool, *others)
    assert found[:2] == (status, "ResolvedRefs" if status == "True" else "InvalidExtensionRef")
    assert part in found[2]
    assert told("Ready", pool, *others)[0] == "True"


def test_pods_that_another_pool_selects_are_told(kit, told):
    """Whatever kind of pool that is, but for the other version of the same; each Pod with its pools."""
    pool = kit.inference_pool("pool", LLM)
    twin = kit.inference_pool("pool", LLM, group=kit.old)
    pods = [kit.pod("a", LLM | {"tier": "x"}), kit.pod("b", LLM)]
    assert told("Conflicted", pool, twin, *pods)[:2] == ("False", "NoConflicts")
    others = [kit.inference_pool("other", {"tier": "x"}), kit.server("s", LLM)]
    assert told("Conflicted", pool, twin, *others, *pods) == (
        "True",
        "PodsShared",
        "Also selected by other pools: default/a by InferencePool default/other, ModelServer default/s, "
        "default/b by ModelServer default/s",
    )
