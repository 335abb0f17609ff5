"""Weights of Pods: their own, or from an annotation of their pool by their labels."""

import msgspec
import pytest

from headgate.api import marks

PLANNED = (
    '[{"weight": 1.77, "selector": {"matchLabels": {"variant": "h100"}}},'
    ' {"weight": 0.23, "selector": {"matchLabels": {"variant": "l40s"}}}]'
)


def pod_of(kit, name, variant="", ip="127.0.0.2", **notes):
    labels = {"app": "pool", **({"variant": variant} if variant else {})}
    return kit.pod(name, ip=ip, metadata={"labels": labels, "annotations": notes})


def weights_of(kit, *pods, planned=None, server=None):
    """The weights of a ModelServer's endpoints, by name, and the problems."""
    server = server or kit.server()
    if planned is not None:
        metadata = msgspec.structs.replace(server.metadata, annotations={marks.WEIGHTS: planned})
        server = msgspec.structs.replace(server, metadata=metadata)
    snapshot = kit.translated(server, *pods)
    found = snapshot.pools[kit.ref(kind="ModelServer")].weights
    return {endpoint.name.removeprefix("default/"): each for endpoint, each in found.items()}, (
        snapshot.problems
    )


def test_without_annotations_there_are_no_weights(kit):
    """Requests are scheduled as ever."""
    assert weights_of(kit, pod_of(kit, "a"), pod_of(kit, "b")) == ({}, ())


def test_pods_say_their_own_weight(kit):
    """In their template; the others have 1."""
    pods = pod_of(kit, "a", **{marks.WEIGHT: "2.5"}), pod_of(kit, "b")
    assert weights_of(kit, *pods) == ({"a": 2.5, "b": 1.0}, ())


def test_a_plan_says_weights_by_labels(kit):
    """Pods that it does not name count as the mean replica."""
    pods = pod_of(kit, "a", "h100"), pod_of(kit, "b", "l40s"), pod_of(kit, "c")
    assert weights_of(kit, *pods, planned=PLANNED) == ({"a": 1.77, "b": 0.23, "c": 1.0}, ())


def test_a_pods_own_weight_comes_before_the_plan(kit):
    """Whoever writes one by hand has the last word."""
    pods = pod_of(kit, "a", "h100", **{marks.WEIGHT: "0.5"}), pod_of(kit, "b", "l40s")
    assert weights_of(kit, *pods, planned=PLANNED) == ({"a": 0.5, "b": 0.23}, ())


def test_inference_pools_have_the_same_annotations(kit):
    """The ranks of one Pod share its weight."""
    pool = kit.pool("pool", 8000, 8001, notes={marks.WEIGHTS: PLANNED})
    snapshot = kit.translated(pool, pod_of(kit, "a", "h100"))
    assert snapshot.problems == ()
    assert list(snapshot.pools[kit.ref()].weights.values()) == [1.77 / 2, 1.77 / 2]


@pytest.mark.parametrize("text", ["", "0", "-1", "1e3", "nan", "1001", "0.0001", "half", "٣"])
def test_a_wrong_weight_is_a_problem_and_counts_as_none(kit, text):
    """The message says what to write."""
    pods = pod_of(kit, "a", **{marks.WEIGHT: text}), pod_of(kit, "b", **{marks.WEIGHT: "3"})
    found, (problem,) = weights_of(kit, *pods)
    assert found == {"a": 1.0, "b": 3.0}
    assert problem.reason == "InvalidAnnotation"
    assert "Pod default/a, metadata.annotations[headgate.dev/weight]" in problem.message
    assert "is not a number from 0.001 to 1000, such as 2.5" in problem.message


DEEP = '[{"weight": 1, "selector": {}, "x": ' + "[" * 9000 + "]" * 9000 + "}]"


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '[{"weight": 0, "selector": {}}]', '[{"weight": 2}]', "x" * 9000, DEEP]
)
def test_a_wrong_plan_is_a_problem_and_has_no_effect(kit, text):
    """Its message is short."""
    found, (problem,) = weights_of(kit, pod_of(kit, "a", "h100"), planned=text)
    assert found == {}
    assert (problem.field, problem.reason) == (
        "metadata.annotations[headgate.dev/weights]",
        "InvalidAnnotation",
    )
    assert "is not a list such as [" in problem.message
    assert len(problem.message) < 700


def test_pools_with_separate_prefill_have_no_weights(kit):
    """Prefill and decode are paired by their own rules."""
    roles = {"groupKey": "g", "prefillLabels": {"role": "p"}, "decodeLabels": {"role": "d"}}
    server = kit.server(workloadSelector={"matchLabels": {"app": "pool"}, "pdGroup": roles})
    pods = [
        kit.pod(
            name,
            metadata={
                "labels": {"app": "pool", "g": "1", "role": role},
                "annotations": {marks.WEIGHT: weight},
            },
        )
        for name, role, weight in (("a", "p", "1"), ("b", "d", "2"))
    ]
    assert weights_of(kit, *pods, server=server)[0] == {}
