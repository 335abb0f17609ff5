"""What a gateway routes by depends on the objects as they are, not on how they came to be so."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headgate import api, routing
from headgate.api import gie_v1, gie_v1alpha1, marks

NAMES = ["a", "b", "c"]
MODELS = ["m", "n", "o"]
CREATED = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"]


def metadata(rng, name, **more):
    made = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "creationTimestamp": rng.choice(CREATED),
        **more,
    }
    if rng.random() < 0.2:
        made["deletionTimestamp"] = "2026-02-01T00:00:00Z"
    return made


def a_route(rng, name):
    rule = {"targetModels": [{"modelServerName": rng.choice(NAMES)}]}
    match = rng.choice([None, {"uri": {"regex": "["}}, {"headers": {"x": {"exact": "y"}}}])
    if match is not None:
        rule["modelMatch"] = match
    spec = {
        "modelName": rng.choice([None, *MODELS]),
        "loraAdapters": rng.sample(MODELS, rng.randint(0, 2)),
        "rules": [rule],
    }
    return msgspec.convert({"metadata": metadata(rng, name), "spec": spec}, api.ModelRoute)


def a_server(rng, name):
    notes = rng.choice([{}, {marks.TLS_AUTHORITIES: "a"}, {marks.TLS_AUTHORITIES: "b"}])
    spec = {
        "inferenceEngine": "vLLM",
        "workloadSelector": {"matchLabels": {"app": rng.choice(NAMES)}},
        "workloadPort": {"port": 8000, "protocol": rng.choice(["http", "https"])},
    }
    made = {"metadata": metadata(rng, name, annotations=notes), "spec": spec}
    return msgspec.convert(made, api.ModelServer)


def a_pool(rng, name):
    notes = {marks.MODELS: rng.choice(["m", "m,n", "*", ""])}
    spec = {"selector": {"matchLabels": {"app": rng.choice(NAMES)}}, "targetPorts": [{"number": 8000}]}
    made = {"metadata": metadata(rng, name, annotations=notes), "spec": spec}
    return msgspec.convert(made, gie_v1.InferencePool)


def an_old_pool(rng, name):
    spec = {"selector": {"app": rng.choice(NAMES)}, "targetPortNumber": rng.choice([0, 8000])}
    made = {"metadata": metadata(rng, name), "spec": spec}
    return msgspec.convert(made, gie_v1alpha1.InferencePool)


def reference(rng):
    group = rng.choice([gie_v1.GROUP, gie_v1alpha1.GROUP])
    return {"name": rng.choice(NAMES), "group": group, "kind": rng.choice(["InferencePool", "Service"])}


def a_model(rng, name):
    spec = {"modelName": rng.choice(MODELS), "poolRef": reference(rng)}
    return msgspec.convert({"metadata": metadata(rng, name), "spec": spec}, api.InferenceModel)


def an_objective(rng, name):
    spec = {"poolRef": reference(rng), "priority": rng.randint(-1, 1)}
    return msgspec.convert({"metadata": metadata(rng, name), "spec": spec}, api.InferenceObjective)


def a_rewrite(rng, name):
    matches = [{"model": {"value": model}} for model in rng.sample(MODELS, rng.randint(0, 2))]
    rule = {"matches": matches, "targets": [{"modelRewrite": rng.choice(MODELS)}]}
    spec = {"poolRef": reference(rng), "rules": [rule]}
    return msgspec.convert({"metadata": metadata(rng, name), "spec": spec}, api.InferenceModelRewrite)


def a_pod(rng, name):
    status = {
        "podIP": "127.0.0.2",
        "conditions": [{"type": "Ready", "status": rng.choice(["True", "False"])}],
    }
    made = {"metadata": metadata(rng, name, labels={"app": rng.choice(NAMES)}), "status": status}
    return msgspec.convert(made, api.Pod)


def a_secret(rng, name):
    data = rng.choice([{}, {"ca.crt": "bm9uZQ=="}])
    return msgspec.convert({"metadata": metadata(rng, name), "data": data}, api.Secret)


MAKERS = {
    routing.MODEL_ROUTE: a_route,
    routing.MODEL_SERVER: a_server,
    routing.INFERENCE_POOL: a_pool,
    routing.INFERENCE_POOL_V1ALPHA1: an_old_pool,
    routing.INFERENCE_MODEL: a_model,
    routing.INFERENCE_OBJECTIVE: an_objective,
    routing.INFERENCE_MODEL_REWRITE: a_rewrite,
    "Pod": a_pod,
    "Secret": a_secret,
}


def translated(objects):
    def of(*kinds):
        return [obj for ref, obj in objects.items() if ref.kind in kinds]

    inference = routing.InferenceObjects(
        pools=of(routing.INFERENCE_POOL, routing.INFERENCE_POOL_V1ALPHA1),
        models=of(routing.INFERENCE_MODEL),
        objectives=of(routing.INFERENCE_OBJECTIVE),
        rewrites=of(routing.INFERENCE_MODEL_REWRITE),
    )
    return routing.translate(
        of(routing.MODEL_ROUTE), of(routing.MODEL_SERVER), of("Pod"), of("Secret"), inference
    )


@given(st.randoms(use_true_random=True), st.integers(1, 25))
def test_edits_end_where_a_translation_of_all_ends(rng, edits):
    """After any creations, edits and deletions, with snapshots taken in between, the snapshot is the one of
    the objects that are left; and each differs from the one before by what `Difference` says."""
    objects, translator, before = {}, routing.Translator(), routing.EMPTY
    for _ in range(edits):
        ref = api.ObjectRef(rng.choice(sorted(MAKERS)), "default", rng.choice(NAMES))
        obj = MAKERS[ref.kind](rng, ref.name) if rng.random() < 0.75 else None
        objects.pop(ref, None)
        if obj is not None:
            objects[ref] = obj
        if ref.kind == "Pod":
            translator.put_pod(ref.key, obj)
        elif ref.kind == "Secret":
            translator.put_secret(ref.key, obj)
        else:
            translator.put(ref, obj)
        if rng.random() < 0.5:
            after = translator.snapshot()
            assert not translator.failed
            assert after == translated(objects)
            assert list(after.pools) == list(translated(objects).pools)
            assert_differ(before, after, routing.Difference.between(before, after))
            assert_differ(before, after, routing.Difference.between(before, after, translator.step))
            before = after
    assert translator.snapshot() == translated(objects)


def assert_differ(before, after, difference):
    for name in before.names() + after.names():
        if name not in difference.names:
            assert before.models.get(name) is after.models.get(name)
            assert before.adapters.get(name) is after.adapters.get(name)
    identities = [{id(route) for route in snapshot.routes()} for snapshot in (before, after)]
    assert {id(route) for route in difference.left} == identities[0] - identities[1]
    assert {id(route) for route in difference.came} == identities[1] - identities[0]
    for key in before.pools.keys() | after.pools.keys():
        assert before.pools.get(key) is after.pools.get(key) or key in difference.pools
