"""Routes: the model by weights, adapters to the backends that have them, and nothing to what cannot serve."""

import pytest

from headgate import api
from headgate.controllers.model import Observed


def adapters(*names):
    return [{"name": name, "artifactURL": f"hf://org/{name}"} for name in names]


def routes(children):
    return {c.name: c.manifest["spec"] for c in children.children if c.kind is api.ModelRoute}


def targets(rule):
    return {each["modelServerName"]: each["weight"] for each in rule["targetModels"]}


def by_rule(spec):
    return {rule["name"]: targets(rule) for rule in spec["rules"]}


def test_one_backend_has_one_rule_for_all(made, backend):
    """Its adapters are names of the same route."""
    (spec,) = routes(made(backend(loraAdapters=adapters("z", "a")))).values()
    assert spec["loraAdapters"] == ["a", "z"]
    assert spec["rules"] == [{"name": "default", "targetModels": [{"modelServerName": "m-b", "weight": 100}]}]


def test_an_adapter_is_only_where_it_is_loaded(made, backend):
    """The rule for the model does not match adapters."""
    (spec,) = routes(made(backend("a"), backend("b", loraAdapters=adapters("z")))).values()
    assert spec["rules"][0]["modelMatch"]["body"] == {"model": "m"}
    assert by_rule(spec) == {"default": {"m-a": 100, "m-b": 100}, "z": {"m-b": 100}}


@pytest.mark.parametrize("backends", [1, 2])
def test_many_adapters_take_several_routes(made, backend, backends):
    """Ten in each."""
    names = [f"a{number:02}" for number in range(25)]
    made_of = [backend(f"b{number}", loraAdapters=adapters(*names)) for number in range(backends)]
    found = routes(made(*made_of))
    assert [len(spec["loraAdapters"]) for spec in found.values()] == [10, 10, 5]
    assert list(found) == ["m", "m-adapters-1", "m-adapters-2"]
    assert sorted(name for spec in found.values() for name in spec["loraAdapters"]) == names
    assert [spec.get("modelName") for spec in found.values()] == ["m", None, None]


def test_an_adapter_stays_in_its_route(made, backend):
    """So that none is without a route while two of them change."""
    names = [f"b{number:02}" for number in range(12)]
    before = routes(made(backend(loraAdapters=adapters(*names))))
    placed = {adapter: name for name, spec in before.items() for adapter in spec["loraAdapters"]}
    changed = ["a", *names[1:]]
    after = routes(made(backend(loraAdapters=adapters(*changed)), observed=Observed(placed=placed)))
    assert after["m"]["loraAdapters"] == ["a", *names[1:10]]
    assert after["m-adapters-1"] == before["m-adapters-1"]


def test_backends_without_replicas_get_no_requests(made, backend):
    """Unless none has any."""
    backends = backend("a", routeWeight=30), backend("b", routeWeight=70)
    (none,) = routes(made(*backends)).values()
    (one,) = routes(made(*backends, observed=Observed(ready={"m-b": 1}))).values()
    assert by_rule(none) == {"default": {"m-a": 30, "m-b": 70}}
    assert by_rule(one) == {"default": {"m-b": 70}}


def test_a_former_backend_serves_until_the_new_one_does(made, backend):
    """With the weight of that one."""
    backends = backend("a", routeWeight=30), backend("new", routeWeight=70)
    observed = Observed(ready={"m-a": 1}, leaving=["m-old"])
    (spec,) = routes(made(*backends, observed=observed)).values()
    assert by_rule(spec) == {"default": {"m-a": 30, "m-old": 70}}
    ready = Observed(ready={"m-a": 1, "m-new": 1}, leaving=["m-old"])
    (spec,) = routes(made(*backends, observed=ready)).values()
    assert by_rule(spec) == {"default": {"m-a": 30, "m-new": 70}}


def test_a_backend_that_cannot_be_made_keeps_its_requests(made, backend):
    """An edit that nobody can use changes nothing for those who send requests."""
    broken = backend("b", routeWeight=70, workers=[{"type": "server", "config": 1}])
    observed = Observed(ready={"m-a": 1}, leaving=["m-b"])
    (spec,) = routes(made(backend("a", routeWeight=30), broken, observed=observed)).values()
    assert by_rule(spec) == {"default": {"m-a": 30, "m-b": 70}}


def test_an_edit_that_nobody_can_use_changes_no_route(made, backend):
    """Of the only backend, and of its adapters; whether its Pods serve is not known yet."""
    usable = backend(loraAdapters=adapters("a", "b"))
    broken = usable | {"workers": [{"type": "server", "config": 1}]}
    before = routes(made(usable))
    called = {"m": "m"}
    assert routes(made(broken, observed=Observed(called=called))) == before
    assert routes(made(broken, observed=Observed(called=called, leaving=["m-b"]))) == before


def test_a_model_that_nobody_could_ever_use_has_no_route(made, backend):
    """Its servers would not exist."""
    assert routes(made(backend(workers=[{"type": "server", "config": 1}]))) == {}


def test_former_pods_of_a_changed_backend_serve(made, backend):
    """It becomes groups of Pods, under the same name."""
    changed = backend("b", workers=[{"type": "server", "pods": 2, "config": {"tensor-parallel-size": 2}}])
    observed = Observed(ready={"m-a": 1}, leaving=["m-b"])
    (spec,) = routes(made(backend("a"), changed, observed=observed)).values()
    assert by_rule(spec) == {"default": {"m-a": 100, "m-b": 100}}


def test_conditions_hold_for_adapters_too(made, backend):
    """They say which requests may reach the Model."""
    match = {"headers": {"tier": {"exact": "gold"}}}
    backends = backend("a"), backend("b", loraAdapters=adapters("z"))
    (spec,) = routes(made(*backends, modelMatch=match)).values()
    assert [rule["modelMatch"] for rule in spec["rules"]] == [
        {**match, "body": {"model": "m"}},
        {**match, "body": {"model": "z"}},
    ]


def test_more_targets_than_a_route_can_have_are_a_problem(made, backend):
    """Nobody is left out without a word."""
    children = made(*(backend(f"b{number:02}") for number in range(18)))
    (spec,) = routes(children).values()
    assert len(spec["rules"][0]["targetModels"]) == 16
    (problem,) = children.problems
    assert problem.field == "spec.backends"
    assert problem.message.endswith("m-b16, m-b17")


def test_the_name_of_the_spec_is_that_of_requests(made, backend):
    """And engines serve the name of the object."""
    children = made(backend(), called="x")
    (spec,) = routes(children).values()
    assert spec["modelName"] == "x"
    (server,) = [c.manifest["spec"] for c in children.children if c.kind is api.ModelServer]
    assert server["model"] == "m"


def test_a_backend_without_weight_serves_until_one_with_weight_does(made, backend):
    """All weights may be 0, too."""
    backends = backend("a", routeWeight=0), backend("b", routeWeight=70)
    found = {}
    for ready in ("m-a", "m-b"):
        (spec,) = routes(made(*backends, observed=Observed(ready={ready: 1}))).values()
        found[ready] = by_rule(spec)["default"]
    assert found == {"m-a": {"m-a": 1}, "m-b": {"m-b": 70}}
    (spec,) = routes(made(backend("a", routeWeight=0), observed=Observed(ready={"m-a": 1}))).values()
    assert by_rule(spec) == {"default": {"m-a": 0}}


def test_another_route_stands_in_while_the_name_changes(made, backend):
    """The name in a route cannot be changed; adapters stay with it."""
    own = backend(loraAdapters=adapters("z"))
    (stand_in,) = made(own, called="new", observed=Observed(called={"m": "old"}, placed={"z": "m"})).children[
        -1:
    ]
    assert stand_in.name.startswith("m-as-")
    assert stand_in.manifest["spec"]["modelName"] == "new"
    assert stand_in.manifest["spec"]["loraAdapters"] == ["z"]
    observed = Observed(called={stand_in.name: "new"}, placed={"z": stand_in.name})
    after = routes(made(own, called="new", observed=observed))
    assert after == {"m": stand_in.manifest["spec"]}
