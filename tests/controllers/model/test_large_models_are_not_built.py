"""A short Model can ask for very many containers: it is refused before any is made."""

import pytest


def adapters(count, of="hf://org/{}"):
    return [{"name": f"a{i}", "artifactURL": of.format(i)} for i in range(count)]


def many(backend, workers, **fields):
    kinds = [{"type": "prefill"}, {"type": "decode"}] * (workers // 2)
    return backend("pd", type="vLLMDisaggregated", workers=kinds, **fields)


VARIABLES = [{"name": f"HF_{i}", "value": "x"} for i in range(300)]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"workers": 400, "loraAdapters": adapters(1000)}, "400400 downloads; at most 10000"),
        ({"workers": 4, "loraAdapters": adapters(300), "env": VARIABLES}, "variables and mounts"),
        ({"workers": 2, "loraAdapters": adapters(999, "pvc://claim-{}/x")}, "variables and mounts"),
    ],
)
def test_too_many_containers_are_a_problem(made, backend, fields, told):
    """The backends keep what they have had."""
    children = made(many(backend, **fields))
    (problem,) = children.problems
    assert problem.field == "spec.backends"
    assert told in problem.message
    assert children.children == ()
    assert children.unbuilt == {"pd"}


def test_all_backends_count(made, backend):
    """Each of them alone would do."""
    assert made(*(backend(f"b{i}", loraAdapters=adapters(400)) for i in range(32))).children == ()


def test_a_thousand_adapters_are_served(made, backend):
    """As many as a backend can have."""
    children = made(many(backend, workers=2, loraAdapters=adapters(1000), env=VARIABLES[:20]))
    assert children.problems == ()
