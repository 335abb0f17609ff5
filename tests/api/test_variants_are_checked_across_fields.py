"""VariantAutoscaling: names of variants, parameters as text, and a status that is whole or not there."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from headgate import api
from headgate.kubeschema import structural

Object = dict[str, Any]

SCHEMA = next(
    d["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for d in api.custom_definitions()
    if d["spec"]["names"]["kind"] == "VariantAutoscaling"
)

VARIANT: Object = {
    "apiVersion": "llmd.ai/v1alpha1",
    "kind": "VariantAutoscaling",
    "metadata": {"name": "llama-8b-a100", "namespace": "llm"},
    "spec": {
        "modelID": "meta/llama-3.1-8b",
        "variantID": "meta/llama-3.1-8b-A100-1",
        "accelerator": "A100",
        "acceleratorCount": 1,
        "sloClassRef": {"name": "service-classes-config", "key": "premium.yaml"},
        "variantProfile": {
            "perfParms": {
                "decodeParms": {"alpha": "20.58", "beta": "0.41"},
                "prefillParms": {"gamma": "5.2", "delta": "0.1"},
            },
            "maxBatchSize": 4,
        },
    },
    "status": {
        "currentAlloc": {
            "variantID": "meta/llama-3.1-8b-A100-1",
            "accelerator": "A100",
            "numReplicas": 1,
            "maxBatch": 256,
            "variantCost": "40.00",
        },
        "desiredOptimizedAlloc": {
            "lastRunTime": "2025-10-23T18:00:00Z",
            "variantID": "meta/llama-3.1-8b-A100-1",
            "accelerator": "A100",
            "numReplicas": 2,
        },
        "actuation": {"applied": True},
        "conditions": [
            {
                "type": "MetricsAvailable",
                "status": "True",
                "reason": "MetricsFound",
                "message": "fresh",
                "lastTransitionTime": "2025-10-23T18:00:00Z",
            }
        ],
    },
}


def errors_with(path: str, value: Any) -> list[str]:
    """Fields that are refused once the value stands at the path; None takes the field away."""
    obj = copy.deepcopy(VARIANT)
    *parents, last = path.split(".")
    part = obj
    for name in parents:
        part = part[name]
    part.pop(last)
    if value is not None:
        part[last] = value
    return [error.field for error in structural.validate(SCHEMA, obj)]


def test_a_whole_object_survives_decoding_and_encoding() -> None:
    """What the planner reads and writes is what the API has."""
    assert structural.validate(SCHEMA, VARIANT) == []
    variant = msgspec.convert(VARIANT, api.VariantAutoscaling)
    assert variant.spec.model_id == "meta/llama-3.1-8b"
    assert msgspec.to_builtins(variant) == VARIANT


@pytest.mark.parametrize("name", ["m-h100-1", "m-H100-SXM-1", "meta/llama-3.1-8b-A100-4", "a-b-10"])
def test_a_variant_is_named_by_model_accelerator_and_count(name: str) -> None:
    """The model may have anything in it, hyphens too."""
    assert errors_with("spec.variantID", name) == []


@pytest.mark.parametrize("name", ["m-A_100-1", "H100-1", "m-H100-0", "m-H100-04", "m-H100", "-H100-1", ""])
def test_other_names_of_variants_are_refused(name: str) -> None:
    """An underscore in the accelerator, no model, or a count that is not a positive number."""
    assert set(errors_with("spec.variantID", name)) == {"spec.variantID"}


@pytest.mark.parametrize("cost", ["0", "40", "40.00", "0.5"])
def test_a_cost_is_a_plain_decimal(cost: str) -> None:
    """As text, so that no digit is lost."""
    assert errors_with("status.currentAlloc.variantCost", cost) == []


@pytest.mark.parametrize("cost", ["10.", "-1", "1e3", ".5", "", "1,5", "٣"])
def test_other_spellings_of_a_cost_are_refused(cost: str) -> None:
    """No sign, no exponent, no digits of other scripts."""
    assert errors_with("status.currentAlloc.variantCost", cost) == ["status.currentAlloc.variantCost"]


def test_parameters_are_text() -> None:
    """A bare number in YAML is refused with the place where it stands, and so is a phase without any."""
    where = "spec.variantProfile.perfParms.decodeParms"
    assert errors_with(where, {"alpha": 20.58}) == [f"{where}.alpha"]
    assert errors_with(where, {}) == [where]
    assert errors_with(where, {"alpha": "1"}) == []


@pytest.mark.parametrize(
    "path",
    [
        "spec.modelID",
        "spec.sloClassRef",
        "spec.sloClassRef.key",
        "spec.variantProfile.perfParms.prefillParms",
        "status.currentAlloc.variantCost",
        "status.desiredOptimizedAlloc.numReplicas",
        "status.actuation.applied",
    ],
)
def test_a_part_that_is_there_is_whole(path: str) -> None:
    """Half an allocation says nothing that one could act on."""
    assert errors_with(path, None) == [path]


@pytest.mark.parametrize(
    "path", ["status.currentAlloc", "status.desiredOptimizedAlloc", "status.actuation", "status.conditions"]
)
def test_a_part_of_the_status_may_be_missing(path: str) -> None:
    """What is not known yet is left out."""
    assert errors_with(path, None) == []
