"""InferenceModelRewrites of a pool become its rewrites, by the precedence of the reference."""

import msgspec
import pytest

from headgate import api, routing


def make_rewrite(name, *rules, second=0, pool="pool", **metadata):
    """Each rule is (models, targets); targets are weights by name. Later seconds are younger."""
    made = [
        {
            "matches": [{"model": {"value": model}} for model in models],
            "targets": [
                {"modelRewrite": target} | ({} if weight is None else {"weight": weight})
                for target, weight in targets.items()
            ],
        }
        for models, targets in rules
    ]
    metadata = {
        "name": name,
        "namespace": "default",
        "creationTimestamp": f"2026-01-01T00:00:{second:02}Z",
        **metadata,
    }
    spec = {"poolRef": {"name": pool}, "rules": made}
    return msgspec.convert({"metadata": metadata, "spec": spec}, api.InferenceModelRewrite)


def names(kit, *rewrites, model="m"):
    """The names that requests for a model get, with their weights; None without any."""
    pool = kit.translated(kit.pool(), *rewrites).pools[kit.ref()]
    route = pool.rewrites.of(model) if pool.rewrites is not None else None
    return {target.model: target.weight for target in route.rules[0].targets} if route is not None else None


def test_a_pool_without_rewrites_has_none(kit):
    assert kit.translated(kit.pool()).pools[kit.ref()].rewrites is None
    elsewhere = make_rewrite("r", (["m"], {"x": None}), pool="other")
    assert names(kit, elsewhere) is None


def test_the_oldest_object_counts(kit):
    """B19: two with the same exact match."""
    young = make_rewrite("a", (["m"], {"young": None}), second=2)
    old = make_rewrite("b", (["m"], {"old": None}), second=1)
    assert names(kit, young, old) == {"old": 1}


def test_an_exact_match_of_a_young_object_counts_before_a_generic_one(kit):
    generic = make_rewrite("a", ([], {"any": None}), second=1)
    exact = make_rewrite("b", (["m", "n"], {"exact": None}), second=2)
    assert names(kit, generic, exact) == {"exact": 1}
    assert names(kit, generic, exact, model="n") == {"exact": 1}
    assert names(kit, generic, exact, model="o") == {"any": 1}


def test_the_first_rule_of_an_object_counts(kit):
    rewrite = make_rewrite("a", (["m"], {"first": None}), (["m"], {"second": None}), ([], {"any": 5}))
    assert names(kit, rewrite) == {"first": 1}
    assert names(kit, rewrite, model="n") == {"any": 5}


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"x": None, "y": None}, {"x": 1, "y": 1}),
        ({"x": 90, "y": 10}, {"x": 90, "y": 10}),
        ({"x": 90, "y": None}, {"x": 90, "y": 0}),
    ],
)
def test_weights_are_those_of_the_reference(kit, weights, expected):
    """Uniform without weights; a missing one beside others gets nothing."""
    assert names(kit, make_rewrite("r", (["m"], weights))) == expected


def test_a_rule_without_targets_does_nothing(kit):
    assert names(kit, make_rewrite("r", (["m"], {}), (["m"], {"x": None}))) == {"x": 1}


def test_a_missing_pool_is_reported(kit):
    (problem,) = kit.translated(make_rewrite("r", ([], {"x": None}))).problems
    assert (problem.field, problem.reason) == ("spec.poolRef", routing.REF_NOT_FOUND)
    assert problem.message == "there is no InferencePool default/pool"
