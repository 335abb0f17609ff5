"""What informers keep of a Pod is enough for routing, and much less than the Pod."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headgate import api, routing
from headgate.api import gie_v1, marks

TEXTS = st.sampled_from(["", "8000", "8001", "off", "tcp://*:5557", "127.0.0.3:9000", "/metrics", "no port"])
LABELS = st.dictionaries(
    st.sampled_from(["app", "role", marks.ROLE]), st.sampled_from(["pool", "prefill", "decode"])
)
NOTES = st.dictionaries(st.sampled_from([*sorted(marks.OF_PODS), "example.com/other"]), TEXTS)
ARGUMENTS = st.lists(
    st.sampled_from(["--port", "8000", "--kv-events-config", '{"publisher": "zmq"}']), max_size=4
)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.just("engine"),
            "command": ARGUMENTS,
            "args": ARGUMENTS,
            "env": st.just([{"name": "A", "value": "b"}]),
            "ports": st.lists(st.fixed_dictionaries({"containerPort": st.integers(1, 65535)}), max_size=2),
        }
    ),
    max_size=2,
)
STATUSES = st.fixed_dictionaries(
    {
        "phase": st.sampled_from(["Running", "Failed", "Pending"]),
        "podIP": st.sampled_from(["10.0.0.1", "fd00::1", ""]),
        "conditions": st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(["Ready", "ContainersReady"]),
                    "status": st.sampled_from(["True", "False", "Unknown"]),
                }
            ),
            max_size=2,
        ),
    }
)
PODS = st.lists(
    st.builds(
        lambda labels, notes, going, containers, status: (labels, notes, going, containers, status),
        *(LABELS, NOTES, st.booleans(), CONTAINERS, STATUSES),
    ),
    max_size=4,
)


def _pod(number: int, labels, notes, going, containers, status) -> api.Pod:
    metadata = {
        "name": f"p{number}",
        "namespace": "default",
        "uid": str(number),
        "resourceVersion": str(number),
        "labels": {"app": "pool"} | labels,
        "annotations": notes,
        **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}),
    }
    made = {"metadata": metadata, "spec": {"containers": containers}, "status": status}
    return msgspec.convert(made, api.Pod)


@given(PODS)
def test_they_lead_to_the_same_snapshot(given_pods):
    pods = [_pod(number, *each) for number, each in enumerate(given_pods)]
    server = {
        "metadata": {"name": "pool", "namespace": "default"},
        "spec": {"inferenceEngine": "vLLM", "workloadSelector": {"matchLabels": {"app": "pool"}}},
    }
    pool = {
        "metadata": {"name": "pool", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "pool"}},
            "targetPorts": [{"number": 8000}, {"number": 8001}],
        },
    }
    servers = [msgspec.convert(server, api.ModelServer)]
    inference = routing.InferenceObjects(pools=[msgspec.convert(pool, gie_v1.InferencePool)])
    whole = routing.translate([], servers, pods, [], inference)
    assert routing.translate([], servers, map(routing.reduced_pod, pods), [], inference) == whole
    for pod in pods:
        kept = routing.reduced_pod(pod)
        assert (kept.ready, kept.ended, kept.metadata.uid) == (pod.ready, pod.ended, pod.metadata.uid)
        assert kept.metadata.resource_version == pod.metadata.resource_version


def test_pods_of_one_deployment_share_what_is_equal():
    """The copies are immutable, and nobody changes their lists."""
    containers = [{"name": "engine", "args": ["--model", "m"], "ports": [{"containerPort": 8000}]}]
    status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    one, other = (routing.reduced_pod(_pod(number, {}, {}, False, containers, status)) for number in (1, 2))
    assert one.metadata.name != other.metadata.name
    assert one.spec is other.spec
    assert one.metadata.labels is other.metadata.labels
    assert one.status.conditions is other.status.conditions
