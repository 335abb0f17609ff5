"""Thousands of objects are not translated again because one of them was edited."""

import pytest

from headgate import api, routing

ROUTES = 2000


@pytest.fixture
def many(kit):
    """A translator with 2,000 ModelRoutes to 10 ModelServers, and a Pod of each."""
    translator = routing.Translator()
    for place in range(ROUTES):
        rules = [{"targetModels": [{"modelServerName": f"s{place % 10}"}]}]
        put(translator, kit.route(f"r{place}", f"m{place}", rules))
    for place in range(10):
        put(translator, kit.server(f"s{place}"))
        pod = kit.pod(f"p{place}", app=f"s{place}")
        translator.put_pod(pod.metadata.key, pod)
    translator.snapshot()
    return translator


def put(translator, obj):
    translator.put(api.ObjectRef(obj.resource.kind, *obj.metadata.key), obj)


def cost(translator):
    """How many objects the next snapshot translates."""
    before = translator.translated
    translator.snapshot()
    return translator.translated - before


def test_an_edit_of_a_route_translates_one_route(many, kit):
    """All other routes and all pools are those of the snapshot before."""
    before = many.snapshot()
    put(many, kit.route("r7", "m7", []))
    assert cost(many) == 1
    after = many.snapshot()
    assert after.models["m7"] != before.models["m7"]
    assert all(after.models[name] is routes for name, routes in before.models.items() if name != "m7")
    assert after.pools is before.pools
    difference = routing.Difference.between(before, after)
    assert difference.names == {"m7"}
    assert [len(each) for each in (difference.left, difference.came, difference.pools)] == [1, 1, 0]


def test_routes_come_and_go_one_at_a_time(many, kit):
    put(many, kit.route("new", "new"))
    assert cost(many) == 1
    many.put(api.ObjectRef("ModelRoute", "default", "new"), None)
    assert cost(many) == 0
    assert "new" not in many.snapshot().models


def test_routes_for_one_name_leave_each_other_alone(many, kit):
    """However many are for one name, an edit of one translates one."""
    for place in range(100):
        put(many, kit.route(f"same{place}", "same"))
    assert cost(many) == 100
    put(many, kit.route("same3", "same"))
    assert cost(many) == 1


def test_a_pod_translates_the_pools_that_select_it(many, kit):
    pod = kit.pod("p3", "127.0.0.9", app="s3")
    many.put_pod(pod.metadata.key, pod)
    assert cost(many) == 1
    many.put_pod(pod.metadata.key, kit.pod("p3", "127.0.0.9", app="s3"))
    assert cost(many) == 0  # it says what it said
    many.put_pod(pod.metadata.key, kit.pod("p3", app="s4"))
    assert cost(many) == 2


def test_an_edit_of_a_pool_translates_no_route(many, kit):
    put(many, kit.server("s3", model="other"))
    assert cost(many) == 1


def test_a_pool_that_goes_is_told_of_the_routes_to_it_alone(many):
    """Their problems change; the routes themselves are those of before."""
    before = many.snapshot()
    many.put(api.ObjectRef("ModelServer", "default", "s3"), None)
    assert cost(many) == ROUTES / 10
    after = many.snapshot()
    assert len(after.problems) == ROUTES / 10
    assert after.models is before.models


def test_only_a_change_of_who_is_served_concerns_other_models(kit):
    """InferenceModels for one name in one pool: an edit of one that waits, or of the one that is served,
    leaves the others alone; when the one that is served goes, all are asked."""
    translator = routing.Translator()
    models = [kit.model(f"model{place}") for place in range(50)]
    for model in models:
        put(translator, model)
    assert cost(translator) == 50
    for place in (0, 30):
        put(
            translator,
            kit.model(
                f"model{place}", metadata={"creationTimestamp": models[place].metadata.creation_timestamp}
            ),
        )
        assert cost(translator) == 1
    translator.put(api.ObjectRef("InferenceModel", "default", "model0"), None)
    assert cost(translator) == 49


def test_nothing_new_is_the_same_snapshot(many):
    assert many.snapshot() is many.snapshot()


def test_an_object_that_cannot_be_translated_keeps_out_no_other(many, kit, monkeypatch):
    """It stays as it was, and is tried again; the others go on."""
    translate = routing.model_routes.route

    def fail(source, reporter):
        if source.metadata.name == "r1":
            raise RuntimeError("a fault of ours")
        return translate(source, reporter)

    before = many.snapshot()
    with monkeypatch.context() as patch:
        patch.setattr(routing.model_routes, "route", fail)
        for name in ("r1", "r2"):
            put(many, kit.route(name, f"new-{name}"))
        after = many.snapshot()
        assert [str(ref) for ref in many.failed] == ["ModelRoute default/r1"]
        assert after.models["m1"] is before.models["m1"]
        assert "m2" not in after.models
        assert "new-r2" in after.models
    assert "new-r1" in many.snapshot().models
    assert not many.failed
