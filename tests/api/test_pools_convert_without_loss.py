"""InferencePool of v1alpha1 to v1 and back: nothing is lost, and what cannot be said is reported."""

from __future__ import annotations

import string
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import api
from headgate.api import gie_v1, gie_v1alpha1, marks, pool_conversion

STABLE = gie_v1.InferencePool.resource.api_version
EXPERIMENTAL = gie_v1alpha1.InferencePool.resource.api_version

names = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)
texts = st.text(max_size=20)
labels = st.dictionaries(names, names, min_size=1, max_size=4)
ports = st.integers(1, 65535)
metadata = st.builds(
    api.ObjectMeta,
    name=names,
    namespace=names,
    uid=names,
    labels=labels,
    annotations=st.dictionaries(names, texts, max_size=3),
)
conditions = st.lists(
    st.builds(
        api.Condition,
        type=names,
        status=st.sampled_from(["True", "False", "Unknown"]),
        reason=names,
        message=texts,
        observed_generation=st.integers(0, 9),
        last_transition_time=st.just("2026-01-01T00:00:00Z"),
    ),
    max_size=3,
)
experimental_pools = st.builds(
    gie_v1alpha1.InferencePool,
    api_version=st.sampled_from(["", EXPERIMENTAL]),
    kind=st.just("InferencePool"),
    metadata=metadata,
    spec=st.builds(gie_v1alpha1.InferencePoolSpec, selector=labels, target_port_number=ports),
    status=st.none() | st.builds(gie_v1alpha1.InferencePoolStatus, conditions=conditions),
)
port_objects = st.builds(gie_v1.Port, number=ports)
pickers = st.builds(
    gie_v1.EndpointPickerRef,
    group=st.sampled_from(["", "example.com"]),
    kind=st.sampled_from(["Service", "Picker"]),
    name=names,
    port=st.none() | port_objects,
    failure_mode=st.sampled_from(["FailOpen", "FailClose"]),
)
parents = st.builds(
    gie_v1.ParentStatus,
    parent_ref=st.builds(gie_v1.ParentReference, name=names, namespace=st.none() | names),
    controller_name=st.none() | st.just("example.com/gateway"),
    conditions=conditions,
)
stable_pools = st.builds(
    gie_v1.InferencePool,
    api_version=st.sampled_from(["", STABLE]),
    kind=st.just("InferencePool"),
    metadata=metadata,
    spec=st.builds(
        gie_v1.InferencePoolSpec,
        selector=st.builds(gie_v1.LabelSelector, match_labels=labels),
        target_ports=st.lists(port_objects, min_size=1, max_size=8, unique_by=lambda port: port.number),
        app_protocol=st.sampled_from(["http", "kubernetes.io/h2c"]),
        endpoint_picker_ref=st.none() | pickers,
    ),
    status=st.none() | st.builds(gie_v1.InferencePoolStatus, parents=st.lists(parents, max_size=3)),
)


@given(experimental_pools)
def test_v1alpha1_to_v1_and_back_is_the_same_pool(pool: gie_v1alpha1.InferencePool) -> None:
    """Its status included."""
    assert pool_conversion.to_v1alpha1(pool_conversion.to_v1(pool)) == pool


@given(stable_pools)
def test_v1_to_v1alpha1_and_back_is_the_same_pool(pool: gie_v1.InferencePool) -> None:
    """Further ports, protocol, picker and the conditions of each parent included."""
    assert pool_conversion.to_v1(pool_conversion.to_v1alpha1(pool)) == pool


@given(stable_pools, conditions)
def test_both_sides_keep_what_only_the_other_can_say(pool: gie_v1.InferencePool, seen: Any) -> None:
    """Conditions that were written to the converted pool survive beside those of the parents."""
    converted = pool_conversion.to_v1alpha1(pool)
    status = gie_v1alpha1.InferencePoolStatus(conditions=seen)
    observed = msgspec.structs.replace(converted, status=status)
    assert pool_conversion.to_v1alpha1(pool_conversion.to_v1(observed)) == observed


def stable(**spec: Any) -> gie_v1.InferencePool:
    valid = {"selector": {"matchLabels": {"app": "vllm"}}, "targetPorts": [{"number": 8000}]}
    obj = {"apiVersion": STABLE, "kind": "InferencePool", "metadata": {"name": "p"}, "spec": valid | spec}
    return msgspec.convert(obj, gie_v1.InferencePool)


def experimental(**changes: Any) -> gie_v1alpha1.InferencePool:
    spec = {"selector": {"app": "vllm"}, "targetPortNumber": 8000} | changes
    obj = {
        "apiVersion": EXPERIMENTAL,
        "kind": "InferencePool",
        "metadata": {"name": "p", "namespace": "llm"},
        "spec": spec,
    }
    return msgspec.convert(obj, gie_v1alpha1.InferencePool)


def test_what_both_can_say_needs_no_annotation() -> None:
    """A plain pool is a plain pool on the other side."""
    converted = pool_conversion.to_v1alpha1(stable())
    assert msgspec.to_builtins(converted) == {
        "apiVersion": EXPERIMENTAL,
        "kind": "InferencePool",
        "metadata": {"name": "p"},
        "spec": {"selector": {"app": "vllm"}, "targetPortNumber": 8000},
    }


def test_an_edit_between_the_ways_holds() -> None:
    """The annotation keeps only what the pool itself cannot say, so it never undoes an edit."""
    pool = stable(targetPorts=[{"number": 8000}, {"number": 8001}], appProtocol="kubernetes.io/h2c")
    converted = pool_conversion.to_v1alpha1(pool)
    spec = msgspec.structs.replace(converted.spec, target_port_number=8001, selector={"app": "new"})
    back = pool_conversion.to_v1(msgspec.structs.replace(converted, spec=spec))
    assert [port.number for port in back.spec.target_ports] == [8001]
    assert back.spec.selector.match_labels == {"app": "new"}
    assert back.spec.app_protocol == "kubernetes.io/h2c"


def test_all_that_v1_would_refuse_is_reported() -> None:
    """With the object, the fields, their values and what would do."""
    pool = experimental(selector={}, targetPortNumber=0)
    with pytest.raises(pool_conversion.ConversionError) as refused:
        pool_conversion.to_v1(pool)
    assert [problem.split(":")[0] for problem in refused.value.problems] == [
        "spec.selector",
        "spec.targetPortNumber",
    ]
    assert str(refused.value).startswith("InferencePool llm/p cannot become inference.networking.k8s.io/v1: ")
    assert "has 0 labels; v1 takes 1 to 64" in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"targetPorts": [{"number": 0}]}', "[" * 100_000])
def test_a_spoilt_annotation_is_reported(text: str) -> None:
    """Rather than dropped with what it kept."""
    pool = experimental()
    annotated = msgspec.structs.replace(pool.metadata, annotations={marks.POOL_V1: text})
    with pytest.raises(pool_conversion.ConversionError, match=r"metadata\.annotations\[headgate\.dev/inf"):
        pool_conversion.to_v1(msgspec.structs.replace(pool, metadata=annotated))


def test_an_annotation_that_no_server_takes_is_reported() -> None:
    """32 parents with long messages are more than annotations may hold."""
    condition = api.Condition(type="Accepted", status="True", reason="Accepted", message="x" * 32768)
    parent = gie_v1.ParentStatus(parent_ref=gie_v1.ParentReference(name="g"), conditions=[condition])
    status = gie_v1.InferencePoolStatus(parents=[parent] * 32)
    with pytest.raises(pool_conversion.ConversionError, match="at most 262144 are allowed"):
        pool_conversion.to_v1alpha1(msgspec.structs.replace(stable(), status=status))
