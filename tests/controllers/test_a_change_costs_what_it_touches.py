"""The size of the cluster does not show in the cost of one change."""

import msgspec
import pytest

from headgate import api
from headgate.controllers.assessment import status_of
from headgate.controllers.object_index import ObjectIndex
from headgate.controllers.relations import Subject, subject

SERVERS, PODS_EACH = 1000, 10


def labels(server: int) -> dict[str, str]:
    """Two labels that all share, one that tells them apart."""
    return {"app": "llm", "engine": "vllm", "model": f"m{server}"}


@pytest.fixture(scope="module")
def big():
    """1,000 ModelServers with a route each, and 10,000 Pods, all in one namespace; filled by `grown`."""
    return ObjectIndex()


@pytest.fixture
def grown(kit, big):
    if big.statistics()["servers"] == 0:
        for n in range(SERVERS):
            server, route = kit.server(f"s{n}", labels(n)), kit.route(f"r{n}", kit.rule(f"s{n}"))
            big.put(subject(server), server)
            big.put(subject(route), route)
            for each in range(PODS_EACH):
                pod = kit.pod(f"p{n}-{each}", labels(n), ready=False)
                big.put_pod(pod.metadata.key, pod)
    return big


def test_a_pod_touches_its_server_and_the_routes_to_it(kit, grown):
    """Of 1,000 servers one is touched, and it and its route are worked out from its own 10 Pods."""
    before = grown.statistics()["compared"]
    pod = kit.pod("p7-3", labels(7))
    touched = grown.put_pod(pod.metadata.key, pod)
    assert set(map(str, touched)) == {"ModelServer default/s7", "ModelRoute default/r7"}
    for each in touched:
        status = status_of(grown.get(each), grown, kit.now)
        assert status.conditions[-1].status == "True"
    # Twice for the Pod's old and new labels, where the first server, filed under a common label, is met too.
    assert grown.statistics()["compared"] - before <= 2 * PODS_EACH + 6


def test_a_server_is_held_against_its_own_pods_only(kit, grown):
    """A ModelServer that arrives last finds its Pods by its rarest label, not by looking at all."""
    late = kit.server("late", labels(500))
    before = grown.statistics()["compared"]
    assert grown.put(subject(late), late) == {Subject(api.ModelServer, late.metadata.key)}
    assert len(grown.pods_of(late)) == PODS_EACH
    assert grown.statistics()["compared"] - before == PODS_EACH
    grown.put(subject(late), None)


def test_what_shows_in_no_status_touches_nothing(kit, grown):
    """A Pod whose containers restarted, but whose readiness and labels are as before, is no work."""
    pod = kit.pod("p8-0", labels(8), ready=False)
    restarted = msgspec.structs.replace(
        pod.status, container_statuses=[api.ContainerStatus(name="c", restart_count=3)]
    )
    assert grown.put_pod(pod.metadata.key, msgspec.structs.replace(pod, status=restarted)) == set()


def test_a_status_that_was_written_touches_no_route(kit, grown):
    """Our own write of a ModelServer's status comes back to that server alone."""
    server = kit.server("s9", labels(9))
    written = msgspec.structs.replace(server, status=api.ObservedStatus(observed_generation=1))
    assert grown.put(subject(server), written) == {Subject(api.ModelServer, server.metadata.key)}


def test_what_an_inference_pool_says_of_others_is_touched(kit):
    """Who leads to it, who shares its Pods, its picker; references look at both versions of a pool."""
    index = kit.index_of(
        kit.inference_pool("a", {"x": "1"}, picker="epp"),
        kit.inference_model("i", pool="a", group=kit.old),
        kit.objective("o", "a", group=kit.old),
        kit.pod("p", {"x": "1", "y": "1"}),
    )

    def touched(obj, *, gone=False):
        return set(map(str, kit.put(index, type(obj), obj.metadata.key, None if gone else obj)))

    pool, model = "InferencePool default/a", kit.inference_model("j", "n", "a")
    assert touched(model) == {"InferenceModel default/j", pool}
    # Whoever takes the name of a model takes it from its pool too, which counts the models that lead there.
    assert touched(kit.inference_model("k", "n", "c")) == {
        "InferenceModel default/k",
        "InferenceModel default/j",
        pool,
    }
    assert touched(kit.route("r", model="n")) == {
        "ModelRoute default/r",
        "InferenceModel default/j",
        "InferenceModel default/k",
        pool,
    }
    assert touched(model, gone=True) == {"InferenceModel default/k", "ModelRoute default/r", pool}
    other = kit.inference_pool("b", {"y": "1"})
    assert touched(other) == {"InferencePool default/b", pool}
    assert touched(other, gone=True) == {pool}
    assert touched(kit.service("epp")) == {pool}
    old = kit.inference_pool("a", {"z": "1"}, group=kit.old)
    assert touched(old) == {
        "InferencePool.v1alpha1 default/a",
        "InferenceModel default/i",
        "InferenceObjective default/o",
    }
