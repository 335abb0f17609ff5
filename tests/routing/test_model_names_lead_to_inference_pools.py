"""Who serves a model name: the oldest InferenceModel of a pool, after ModelRoutes and before annotations."""

from collections import Counter

import pytest

from headgate import api, routing


def served_by(snapshot, model="m"):
    """Name of the route that a request for the model gets; None if there is none."""
    match = routing.match(snapshot, model, "/v1/completions", lambda name: "")
    return str(match.route.key) if match is not None else None


def targets(snapshot, model="m"):
    """Pool, model and weight of each target."""
    match = routing.match(snapshot, model, "/", lambda name: "")
    return [(target.pool.kind, target.model, target.weight) for target in match.rule.targets]


def told(snapshot):
    return {
        (str(problem.key), problem.field, problem.reason): problem.message for problem in snapshot.problems
    }


def test_requests_for_a_model_go_to_its_pool(kit):
    """The name of the request counts, not that of the object; without targets it is passed on as it is."""
    snapshot = kit.translated(kit.model("object", "m"), kit.pool())
    assert (served_by(snapshot), served_by(snapshot, "object")) == ("InferenceModel default/object", None)
    assert targets(snapshot) == [("InferencePool", "m", 1)]
    assert snapshot.names() == ["m"]
    assert not snapshot.problems


def test_targets_share_by_weight(kit):
    """A16: 20, 20 and 10 of 50, exactly, and a name that is empty is the model's own."""
    snapshot = kit.translated(kit.model("a", targets={"v1": 20, "v2": 20, "": 10}), kit.pool())
    assert targets(snapshot) == [
        ("InferencePool", "v1", 20),
        ("InferencePool", "v2", 20),
        ("InferencePool", "m", 10),
    ]
    match = routing.match(snapshot, "m", "/", lambda name: "")
    splits = routing.Splits()
    turns = Counter(splits.next(match.route.key, match.rule).model for _ in range(50))
    assert turns == {"v1": 20, "v2": 20, "m": 10}


def test_weights_that_are_not_set_are_equal(kit):
    """By the default of the reference."""
    model = kit.model("a", targetModels=[{"name": "v1"}, {"name": "v2"}])
    assert [weight for *_, weight in targets(kit.translated(model, kit.pool()))] == [1, 1]


@pytest.mark.parametrize(
    ("weights", "is_reserved"), [({"x": 0}, True), ({"x": 0, "y": 1}, False), ({}, False)]
)
def test_weights_of_0_alone_reserve_the_name(kit, weights, is_reserved):
    """The name is taken, and nobody serves it."""
    match = routing.match(
        kit.translated(kit.model("a", targets=weights), kit.pool()), "m", "/", lambda name: ""
    )
    assert match.route.is_reserved is is_reserved


def test_the_oldest_for_a_name_in_a_pool_serves(kit):
    """A11: the others say whose name it is; A12: when it is deleted, the next takes over."""
    older, younger = kit.model("z-older", targets={"v1": 1}), kit.model("a-younger", targets={"v2": 1})
    both = kit.translated(younger, older, kit.pool())
    assert targets(both) == [("InferencePool", "v1", 1)]
    message = 'InferenceModel default/z-older is older and has "m" in the same pool'
    ((place, reason),) = told(both).items()
    assert (place[1:], reason[: len(message)]) == (("spec.modelName", "ModelNameInUse"), message)
    assert targets(kit.translated(younger, kit.pool())) == [("InferencePool", "v2", 1)]


def test_of_two_of_one_age_the_name_decides(kit):
    """Whatever order they come in."""
    at = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    models = [kit.model("b", metadata=at), kit.model("a", metadata=at)]
    for order in (models, models[::-1]):
        assert served_by(kit.translated(*order, kit.pool())) == "InferenceModel default/a"


def test_one_that_is_being_deleted_hands_over(kit):
    """While a finalizer holds it, it serves only if there is nobody else."""
    leaving = kit.model("older", metadata={"deletionTimestamp": "2026-02-01T00:00:00Z"})
    staying = kit.model("younger")
    assert served_by(kit.translated(leaving, staying, kit.pool())) == "InferenceModel default/younger"
    assert served_by(kit.translated(leaving, kit.pool())) == "InferenceModel default/older"


def test_a_model_of_another_pool_has_no_effect(kit):
    """A15: both are accepted, and of two pools the older object's is asked."""
    older, younger = kit.model("older", pool="one"), kit.model("younger", pool="two")
    snapshot = kit.translated(younger, older, kit.pool("one"), kit.pool("two"))
    assert served_by(snapshot) == "InferenceModel default/older"
    assert not snapshot.problems
    (taker,) = routing.takers(snapshot, snapshot.models["m"][1])
    assert str(taker) == '"m" goes to the older InferenceModel default/older, rule targetModels'


def test_the_oldest_keeps_its_name_only_while_its_pool_exists(kit):
    """A younger one serves meanwhile, or a pool that has the name; when the pool comes, all is as before."""
    older, younger = kit.model("older", pool="one"), kit.model("younger", pool="two")
    one, two = kit.pool("one"), kit.pool("two")
    without = kit.translated(older, younger, two)
    assert served_by(without) == "InferenceModel default/younger"
    (taker,) = routing.takers(without, without.models["m"][1])
    assert str(taker) == '"m" goes to InferenceModel default/younger, rule targetModels'
    assert served_by(kit.translated(older, younger)) == "InferenceModel default/older"
    assert served_by(kit.translated(older, younger, one, two)) == "InferenceModel default/older"
    noted = kit.pool("noted", notes={"headgate.dev/models": "m"})
    assert served_by(kit.translated(older, noted)) == "InferencePool default/noted"


def test_a_pool_that_comes_and_goes_hands_the_name_over(kit):
    """Also where it is the only thing that changes."""
    one, two = (api.ObjectRef("InferencePool", "default", name) for name in ("one", "two"))
    translator = routing.Translator()
    for name, pool in (("a", one), ("b", two)):
        model = kit.model(name, pool=pool.name)
        translator.put(api.ObjectRef("InferenceModel", "default", name), model)
    for ref, pool, served in ((two, kit.pool("two"), "b"), (one, kit.pool("one"), "a"), (one, None, "b")):
        translator.put(ref, pool)
        assert served_by(translator.snapshot()) == f"InferenceModel default/{served}"


def test_model_routes_go_first(kit):
    """Whatever their age; what no rule of theirs fits goes on to the InferenceModel."""
    model = kit.model("m")
    rule = {"modelMatch": {"headers": {"x-a": {"exact": "1"}}}, "targetModels": [{"modelServerName": "s"}]}
    snapshot = kit.translated(model, kit.route("younger", rules=[rule]), kit.pool(), kit.server("s"))
    asked = {"1": "ModelRoute default/younger", "2": "InferenceModel default/m"}
    for value, served in asked.items():
        match = routing.match(snapshot, "m", "/", lambda name, value=value: value)
        assert str(match.route.key) == served


def test_adapters_of_model_routes_go_before_inference_models(kit):
    """A name that a ModelRoute has as an adapter is not taken away by the other dialect."""
    route = kit.route("r", model="base", rules=None, loraAdapters=["lora"])
    snapshot = kit.translated(kit.model("i", "lora"), route, kit.pool(), kit.server())
    assert served_by(snapshot, "lora") == "ModelRoute default/r"
    shadowed = next(each for each in snapshot.routes() if each.key.kind == "InferenceModel")
    told = '"lora" goes to ModelRoute default/r, rule rules[0]'
    assert [str(taker) for taker in routing.takers(snapshot, shadowed)] == [told]


def test_a_reference_is_completed_by_its_defaults(kit):
    """A23: without group and kind, the pool of v1alpha1 is meant."""
    model = kit.model("a", poolRef={"group": "inference.networking.x-k8s.io"})
    assert targets(kit.translated(model, kit.old_pool())) == [("InferencePool.v1alpha1", "m", 1)]


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ({"name": "none"}, "there is no InferencePool default/none"),
        (
            {"group": "inference.networking.x-k8s.io"},
            "there is no InferencePool.v1alpha1 default/pool; an InferencePool of this name is in group "
            "inference.networking.k8s.io: set spec.poolRef.group",
        ),
        ({"kind": "Service", "group": "", "name": "none"}, "there is no Service.core default/none"),
    ],
)
def test_a_pool_that_does_not_exist_is_told(kit, reference, message):
    """A24: the route is there all the same, so that its requests are refused as what may yet come."""
    snapshot = kit.translated(kit.model("a", poolRef=reference), kit.pool())
    assert told(snapshot) == {("default/a", "spec.poolRef", "RefNotFound"): message}
    assert served_by(snapshot) == "InferenceModel default/a"


@pytest.mark.parametrize(("criticality", "priority"), [("Critical", 1), ("Default", 0), ("Sheddable", -1)])
def test_criticality_is_a_priority(kit, criticality, priority):
    """Three levels that differ."""
    snapshot = kit.translated(kit.model("a", criticality=criticality), kit.pool())
    assert snapshot.models["m"][0].priority == priority


def test_a_pool_names_its_models_itself(kit):
    """By annotation, after InferenceModels for the same name; the pool's own name for the model is used."""
    pool = kit.pool(notes={"headgate.dev/models": "m, chat,,chat", "headgate.dev/model": "org/base"})
    snapshot = kit.translated(pool, kit.model("i", "m"))
    assert snapshot.names() == ["chat", "m"]
    assert served_by(snapshot, "chat") == "InferencePool default/pool"
    assert served_by(snapshot, "m") == "InferenceModel default/i"
    assert targets(snapshot, "chat") == [("InferencePool", "", 1)]


def test_unknown_models_go_to_a_pool_that_takes_them(kit):
    """A9: only names that nobody else has, and of several such pools to the oldest."""
    every = {"headgate.dev/models": "*"}
    older, younger = kit.pool("older", notes=every), kit.pool("younger", notes=every)
    snapshot = kit.translated(younger, older, kit.model("i", "m", pool="younger"))
    assert served_by(snapshot, "m") == "InferenceModel default/i"
    assert served_by(snapshot, "whatever") == "InferencePool default/older"
    assert snapshot.names() == ["m"]
    (taker,) = routing.takers(snapshot, snapshot.unknown[1])
    assert str(taker) == '"*" goes to the older InferencePool default/older, rule models'
    reading = routing.explain(snapshot, "whatever", "/", lambda name: "")
    assert reading.match == routing.match(snapshot, "whatever", "/", lambda name: "")


def test_objectives_belong_to_their_pool(kit):
    """B34: by name and group, in the same namespace; without a priority it is 0, and any sign will do."""
    objectives = [
        kit.objective("high", 10),
        kit.objective("low", -10),
        kit.objective("unset"),
        kit.objective("elsewhere", 5, pool="other"),
        kit.objective("old", 5, poolRef={"group": "inference.networking.x-k8s.io"}),
        kit.objective("foreign", 5, namespace="team"),
    ]
    snapshot = kit.translated(*objectives, kit.pool())
    assert snapshot.pools[kit.ref()].objectives == {"high": 10, "low": -10, "unset": 0}
    assert {str(problem.key) for problem in snapshot.problems} == {
        "default/elsewhere",
        "default/old",
        "team/foreign",
    }
