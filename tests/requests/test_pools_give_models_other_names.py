"""InferenceModelRewrites: the model name that the endpoints of a pool get."""

import json
from collections import Counter

import pytest
from one_plane import POOL, Plane

from headgate import api, routing
from headgate.requests import way

OWNER = api.ObjectRef("InferenceModelRewrite", "default", "rewrite")


def renaming(**weights):
    targets = tuple(routing.Target(POOL, weight, name) for name, weight in weights.items())
    rule = routing.Rule("rules[0]", None, targets)
    return routing.Route(key=OWNER, name=str(OWNER), model=None, adapters=(), rules=(rule,))


def sent(shell):
    return json.loads(shell.asked.body)["model"]


def test_the_model_is_renamed_for_the_endpoint_and_kept_for_the_client():
    plane = Plane(rewrites=routing.Rewrites({"m": renaming(other=1)}))
    shell = plane.ask({"model": "m", "prompt": "hello", "seed": 9007199254740993})
    assert bytes(shell.asked.body) == b'{"model": "other", "prompt": "hello", "seed": 9007199254740993}'
    assert (shell.life.decision.model, shell.life.decision.client_name) == ("m", b'"m"')


@pytest.mark.parametrize(
    ("rewrites", "model"),
    [
        (routing.Rewrites({"m": renaming(exact=1)}, renaming(any=1)), "exact"),
        (routing.Rewrites({"n": renaming(exact=1)}, renaming(any=1)), "any"),
        (routing.Rewrites({"n": renaming(exact=1)}), "m"),
    ],
)
def test_an_exact_name_counts_before_all_names(rewrites, model):
    assert sent(Plane(rewrites=rewrites).ask()) == model


def test_targets_share_by_weight():
    """B21: 90 and 10, exactly."""
    plane = Plane(rewrites=routing.Rewrites({}, renaming(most=90, few=10)))
    names = Counter()
    for _ in range(100):
        shell = plane.ask()
        names[sent(shell)] += 1
        plane.report(shell, way.client_gone)
    assert names == {"most": 90, "few": 10}


def test_turns_of_a_rewrite_that_is_gone_are_forgotten():
    plane = Plane(rewrites=routing.Rewrites({"m": renaming(a=1, b=1)}))
    plane.ask()
    assert plane.plane.splits.statistics() == {"splits": 1}
    plane.pool_fields = {}
    plane.serve(range(2))
    assert plane.plane.splits.statistics() == {"splits": 0}
    assert sent(plane.ask()) == "m"
