"""Objects come from strangers: whatever they contain, an import reports on them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import api
from headgate.api import forms
from headgate.cli.importing import serving, sources, taking
from headgate.cli.importing.taking import Found

OWN = [
    (f"{each['spec']['group']}/{each['spec']['versions'][0]['name']}", each["spec"]["names"]["kind"])
    for each in api.custom_definitions()
]
IDENTITIES = st.sampled_from([*OWN, *forms.FORMS, *forms.UNSERVED])
KEYS = st.sampled_from(
    [
        *(
            "name",
            "modelName",
            "rules",
            "targetModels",
            "modelServerName",
            "selector",
            "matchLabels",
            "weight",
        ),
        *("workloadSelector", "inferenceEngine", "workloadPort", "port", "targetPorts", "number", "poolRef"),
        *("metrics", "backend", "headers", "exact", "regex", "namespace", "annotations", "labels"),
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 9000)
    | st.floats(allow_nan=False)
    | st.sampled_from(["vLLM", "a", "b", "", "../x", "("]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
SERVERS = st.builds(
    lambda name, port, labels: {
        "apiVersion": "networking.serving.volcano.sh/v1alpha1",
        "kind": "ModelServer",
        "metadata": {"name": name},
        "spec": {
            "inferenceEngine": "vLLM",
            "workloadSelector": {"matchLabels": labels},
            "workloadPort": {"port": port},
        },
    },
    st.sampled_from(["a", "b"]),
    st.sampled_from([8000, 8000.0, 0]),
    st.dictionaries(KEYS, st.sampled_from(["a", ""]), max_size=2),
)
OBJECTS = st.builds(
    lambda identity, content: {"apiVersion": identity[0], "kind": identity[1], **content},
    IDENTITIES,
    st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), VALUES, max_size=3),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(OBJECTS | SERVERS, max_size=4))
def test_every_object_is_reported_once(objects: list[dict[str, Any]]) -> None:
    """Unless it has nothing to do with inference; only valid ones are translated."""
    before = json.dumps(objects)
    taken = taking.take([Found(each, "somewhere") for each in objects], "default")
    assert len(taken.reports) + len(taken.rest) == len(objects)
    assert json.dumps(objects) == before
    assert {report.outcome for report in taken.reports} <= {"as-is", "converted", "not-served", "refused"}
    assert all(bool(report.errors) == (report.outcome == "refused") for report in taken.reports)
    serving.serve(sources.objects_of(taken.objects, (), ()), (), knows_pods=True)
