"""The conditions of InferenceModels and InferenceObjectives, which the reference never writes."""

import msgspec
import pytest

from headgate import api
from headgate.controllers import relations

OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
LLM = {"app": "llm"}


def test_the_oldest_for_a_name_is_accepted(kit):
    """A11: the others name it; A12: once it is gone, the next is accepted."""
    pool = kit.inference_pool("pool", LLM)
    older, younger = kit.inference_model("older", created=OLD), kit.inference_model("younger", created=NEW)
    assert kit.conditions(older, younger, pool)["Accepted"][:2] == ("True", "Accepted")
    assert kit.conditions(younger, older, pool)["Accepted"] == (
        "False",
        "ModelNameInUse",
        'spec.modelName: InferenceModel default/older is older and has "m" in the same pool: it is served '
        "until it is deleted",
    )
    assert kit.conditions(younger, pool)["Accepted"][:2] == ("True", "Accepted")


def test_the_same_name_in_another_pool_is_no_clash(kit):
    """A15: but who gets the requests is told."""
    pools = [kit.inference_pool(name, LLM) for name in ("one", "two")]
    older = kit.inference_model("older", pool="one", created=OLD)
    younger = kit.inference_model("younger", pool="two", created=NEW)
    assert kit.conditions(younger, older, *pools)["Accepted"] == (
        "False",
        "Shadowed",
        'No request is routed here: "m" goes to the older InferenceModel default/older, rule targetModels',
    )
    assert kit.conditions(older, younger, *pools)["Accepted"][0] == "True"


def test_the_same_name_in_another_pool_that_is_missing(kit):
    """The younger has the name until that pool exists."""
    pool = kit.inference_pool("two", LLM)
    older = kit.inference_model("older", pool="one", created=OLD)
    younger = kit.inference_model("younger", pool="two", created=NEW)
    assert kit.conditions(younger, older, pool)["Accepted"][0] == "True"
    assert kit.conditions(older, younger, pool)["Accepted"] == (
        "False",
        "Shadowed",
        'No request is routed here: "m" goes to InferenceModel default/younger, rule targetModels',
    )
    index = kit.index_of(older, younger, pool)
    one = kit.inference_pool("one", LLM)
    touched = index.put(relations.subject(one), one)
    assert {relations.subject(older), relations.subject(younger)} <= touched


def test_a_model_route_for_the_name_goes_first(kit):
    """Whatever its age."""
    model = kit.inference_model("i", created=OLD)
    route = kit.route("r", kit.rule("s"), created=NEW)
    assert kit.conditions(model, route, kit.inference_pool("pool", LLM))["Accepted"][1] == "Shadowed"
    assert kit.conditions(route, model)["Accepted"][:2] == ("True", "Accepted")


@pytest.mark.parametrize("make", ["inference_model", "objective"])
def test_a_pool_that_is_missing_is_told(kit, make):
    """With the group that was meant, if it is there."""
    obj, condition = getattr(kit, make)("x", group=kit.old), "ResolvedRefs"
    if make == "objective":
        condition = "Accepted"
    missing = "spec.poolRef: there is no InferencePool.v1alpha1 default/pool"
    assert kit.conditions(obj)[condition] == ("False", "RefNotFound", missing)
    twin = kit.inference_pool("pool", LLM)
    hint = "; an InferencePool of this name is in group inference.networking.k8s.io: set spec.poolRef.group"
    assert kit.conditions(obj, twin)[condition] == ("False", "RefNotFound", missing + hint)
    assert kit.conditions(obj, kit.inference_pool("pool", LLM, group=kit.old))[condition][0] == "True"


def test_a_reserved_name_is_accepted_as_such(kit):
    """With what becomes of its requests."""
    found = kit.conditions(kit.inference_model("i", v1=0), kit.inference_pool("pool", LLM))["Accepted"]
    assert (found[0], "the name is reserved" in found[2]) == ("True", True)


def test_a_model_without_a_name_is_told(kit):
    """No request is for it."""
    assert kit.conditions(kit.inference_model("i", ""))["Accepted"][:2] == ("False", "NoModelName")


def test_a_thousand_models_of_other_pools_do_not_hide_the_one_of_the_same(kit):
    """Of those for a name, the ones of the same pool are looked at first."""
    others = [kit.inference_model(f"o{n}", pool=f"p{n}", created=OLD) for n in range(100)]
    holder = kit.inference_model("holder", created=NEW)
    late = kit.inference_model("late", created="2026-02-01T00:00:00Z")
    assert kit.conditions(late, holder, *others)["Accepted"][1] == "ModelNameInUse"


def test_a_pod_of_a_pool_touches_no_model(kit):
    """A thousand adapters of one pool are not worked on for each Pod of a rollout."""
    models = [kit.inference_model(f"i{n}", f"m{n}") for n in range(20)]
    index = kit.index_of(kit.inference_pool("pool", LLM), kit.objective("o"), *models)
    pod = kit.pod("a", LLM)
    assert {str(each) for each in index.put_pod(pod.metadata.key, pod)} == {"InferencePool default/pool"}


async def test_statuses_of_every_kind_reach_the_api_server(client, kit):
    """In the form of the kind; entries of other parents stay, and defaults that nobody wrote go."""
    other = {
        "parentRef": {"name": "gw"},
        "controllerName": "example.com/controller",
        "conditions": [
            {
                "type": "Accepted",
                "status": "True",
                "reason": "Accepted",
                "message": "",
                "lastTransitionTime": OLD,
            }
        ],
    }
    made = [
        kit.inference_pool("pool", LLM, picker="epp"),
        kit.inference_pool("pool", LLM, group=kit.old),
        kit.inference_model("i"),
        kit.objective("o"),
    ]
    for obj in made:
        await client.create(obj)
    await client.patch_status(type(made[0]), "pool", "default", {"parents": [other]})

    async def stored(kind, name):
        return msgspec.to_builtins((await client.get(kind, name, "default")).status)

    async def said():
        return [await stored(type(obj), obj.metadata.name) for obj in made]

    async with kit.controlling(client):

        async def complete():
            pool, old, model, objective = await said()
            return (
                len((pool or {}).get("parents", ())) == 2
                and bool(old)
                and bool(model)
                and (objective or {}).get("conditions", [{}])[0].get("type") == "Accepted"
            )

        await kit.eventually(complete)
    pool, old, model, objective = await said()
    assert pool["parents"][0]["controllerName"] == "example.com/controller"
    ours = pool["parents"][1]
    assert ours["controllerName"] == "headgate.dev/gateway"
    assert ours["parentRef"] == {"group": "headgate.dev", "kind": "Gateway", "name": "headgate"}
    types = ["Accepted", "ResolvedRefs", "Routed", "Conflicted", "Ready"]
    assert [each["type"] for each in ours["conditions"]] == types
    assert [each["type"] for each in old["conditions"]] == [each for each in types if each != "ResolvedRefs"]
    assert [each["type"] for each in model["conditions"]] == ["Accepted", "ResolvedRefs"]
    assert [each["type"] for each in objective["conditions"]] == ["Accepted"]
    assert (await client.get(api.InferenceModel, "i", "default")).status.conditions[0].status == "True"
