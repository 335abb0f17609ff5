"""The size of the cluster does not show in the cost of one change."""

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import api, cluster
from headgate.api import gie_v1
from headgate.controllers import object_index
from headgate.controllers.assessment import status_of
from headgate.controllers.object_index import ObjectIndex
from headgate.controllers.relations import Subject, names, subject

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


def test_an_edit_of_targets_touches_no_other_route_for_the_name(kit):
    """However many routes are for one name: only who gets requests first matters to the others."""
    routes = [kit.route(f"r{n}", kit.rule("s")) for n in range(300)]
    index = kit.index_of(*routes)
    elsewhere = kit.route("r0", kit.rule("other")).spec.rules
    edited = msgspec.structs.replace(routes[0], spec=msgspec.structs.replace(routes[0].spec, rules=elsewhere))
    assert index.put(subject(edited), edited) == {subject(edited)}
    index.validate()
    renamed = msgspec.structs.replace(edited, spec=msgspec.structs.replace(edited.spec, model_name="new"))
    assert len(index.put(subject(renamed), renamed)) == 300
    index.validate()


@given(st.randoms(use_true_random=True))
def test_the_foremost_rivals_are_those_that_sorting_all_finds(rng):
    """Of any ModelRoutes, InferenceModels and pools for a few names, with fewer of them looked at."""
    objects = [any_object(rng, n) for n in range(rng.randint(1, 40))]
    index = ObjectIndex()
    for obj in objects:
        index.put(subject(obj), obj)
    index.validate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(object_index, "_MAX_RIVALS", 3)
        for obj in objects:
            found = index.rivals_of(obj)
            for kind in {type(each) for each in objects}:
                rivals = [
                    each
                    for each in objects
                    if each is not obj and type(each) is kind and names(each) & names(obj)
                ]
                rivals.sort(key=lambda rival: object_index._precedence(rival, obj))
                assert [each for each in found if type(each) is kind] == rivals[:3]


def any_object(rng, n):
    created = f"2026-01-01T00:00:0{rng.randint(0, 3)}Z"
    metadata = {"name": f"o{n}", "namespace": "default", "creationTimestamp": created}
    if rng.random() < 0.2:
        metadata["deletionTimestamp"] = "2026-02-01T00:00:00Z"
    kind = rng.choice([api.ModelRoute, api.InferenceModel, gie_v1.InferencePool])
    if kind is api.ModelRoute:
        adapters = rng.sample(["m", "n", "o"], 2)
        spec = {"modelName": rng.choice(["m", "n", ""]), "loraAdapters": adapters, "rules": []}
    elif kind is api.InferenceModel:
        pool = {"name": rng.choice("ab"), "group": gie_v1.GROUP}
        spec = {"modelName": rng.choice(["m", "n"]), "poolRef": pool}
    else:
        metadata["annotations"] = {"headgate.dev/models": rng.choice(["m", "m,o"])}
        spec = {"selector": {"matchLabels": {"app": "x"}}, "targetPorts": [{"number": 1}]}
    return msgspec.convert({"metadata": metadata, "spec": spec}, kind)


async def test_thousands_of_keys_let_others_run():
    """Reconciling what needs no write does not hold up the event loop, which serves others too."""
    queue, turns = cluster.WorkQueue(), 0

    async def reconcile(key):
        return None

    for key in range(1000):
        queue.add(key)
    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(cluster.run_workers(queue, reconcile, 1))
        while queue.statistics().taken < 1000:
            await asyncio.sleep(0)
            turns += 1
        working.cancel()
    assert turns >= 900
