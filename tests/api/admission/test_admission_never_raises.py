"""Whatever an object looks like, the rules say what they can and never fail."""

from __future__ import annotations

import copy
import functools
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import api
from headgate.api import admission

IDENTITIES = sorted(admission.KINDS)

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70_000),
    st.sampled_from(["", "a", "/", "(", "5m", "-1s", "101%", "Deployment", "p", "1e9", "\x00", "x" * 300]),
)


@functools.cache
def _names() -> list[str]:
    """Every field name of every schema, so that arbitrary objects meet the rules."""
    found: set[str] = set()

    def visit(schema: Any) -> None:
        if isinstance(schema, dict):
            found.update(schema.get("properties", {}))
            for value in schema.values():
                visit(value)
        elif isinstance(schema, list):
            for value in schema:
                visit(value)

    for definition in [*api.custom_definitions(), *api.builtin_definitions()]:
        visit(definition["spec"]["versions"])
    return sorted(found)


VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.deferred(lambda: st.sampled_from(_names())), inner, max_size=6),
    ),
    max_leaves=25,
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(IDENTITIES), VALUES, VALUES, VALUES)
def test_arbitrary_objects(identity: tuple[str, str], spec: Any, old_spec: Any, other_spec: Any) -> None:
    """New, old and other objects of any shape, as long as they have a kind and a name."""
    group, kind = identity
    version = f"{group}/v1" if group else "v1"

    def obj(body: Any) -> dict[str, Any]:
        meta = {"name": "p", "namespace": "default"}
        return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": body, "data": body}

    new, old = obj(spec), obj(old_spec)
    admission.default(new)
    others = admission.Gathered(
        {**obj(other_spec), "apiVersion": f"{g}/v1", "kind": k} for g, k in admission.INDEXED
    )
    found = admission.check(new, old, others)
    for error in found.errors:
        assert error.message()
    assert len(found.warnings) <= admission.MAX_WARNINGS
    assert all(len(warning) < 400 for warning in found.warnings)


def _corrupted(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """Copies of an object, each with one value replaced by something of another type."""
    if isinstance(value, dict):
        for key in value:
            yield from _corrupted(value[key], (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _corrupted(item, (*path, index))
    if path:
        for junk in (None, 7, "text", [], {}, [7], {"a": None}):
            yield path, junk


def test_any_field_may_be_of_a_wrong_type() -> None:
    """Valid objects with one field spoilt at a time."""
    binding = {
        "apiVersion": "registry.volcano.sh/v1alpha1",
        "kind": "AutoscalingPolicyBinding",
        "metadata": {"name": "b", "namespace": "default", "labels": {"a": "b"}, "finalizers": ["f"]},
        "spec": {
            "policyRef": {"name": "p"},
            "scalingConfiguration": {
                "target": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}},
                "minReplicas": 1,
                "maxReplicas": 2,
            },
        },
    }
    route = {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": "r", "namespace": "default"},
        "spec": {
            "modelName": "m",
            "loraAdapters": ["a"],
            "rules": [
                {
                    "modelMatch": {"headers": {"h": {"regex": "x"}}, "uri": {"prefix": "/"}},
                    "targetModels": [{"modelServerName": "s", "weight": 1}],
                }
            ]
            * 2,
        },
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "ports": [{"containerPort": 1, "name": "a"}],
                    "readinessProbe": {"httpGet": {"port": 1}},
                    "resources": {"limits": {"cpu": 1}, "requests": {"cpu": 1}},
                    "volumeMounts": [{"name": "v", "mountPath": "/"}],
                }
            ],
            "tolerations": [{"key": "a"}],
        },
    }
    for obj in (binding, route, pod):
        for path, junk in _corrupted(obj):
            if path[0] in ("apiVersion", "kind") or path == ("metadata",):
                continue
            spoilt = copy.deepcopy(obj)
            at: Any = spoilt
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = junk
            admission.default(spoilt)
            index = admission.Index()
            index.put(spoilt)
            assert msgspec.json.encode(admission.check(spoilt, obj).warnings)
