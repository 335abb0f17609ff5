"""The scale subresource reads the wanted number from the spec and the observed one from the status."""

from __future__ import annotations

import copy
from typing import Any

import httpx2
import pytest

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GOOD = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"specReplicasPath": ".status.size"},
            ["specReplicasPath: Invalid value: should be a json path under .spec"],
        ),
        (
            {"statusReplicasPath": "status.size"},
            ["statusReplicasPath: Invalid value: must be a simple json path starting with ."],
        ),
        (
            {"labelSelectorPath": ".metadata.labels"},
            ["labelSelectorPath: Invalid value: should be a json path under either .spec or .status"],
        ),
        ({"specReplicasPath": ""}, ["specReplicasPath: Required value"]),
        ({"labelSelectorPath": ".spec.selector"}, []),
    ],
)
async def test_a_path_that_leads_elsewhere_is_refused(
    client: httpx2.AsyncClient, widget_definition: Any, change: dict[str, str], expected: list[str]
) -> None:
    """With the field of the definition and where it may lead."""
    made = copy.deepcopy(widget_definition)
    made["metadata"]["name"] = "gadgets.test.example"
    made["spec"]["names"] = {"kind": "Gadget", "plural": "gadgets"}
    made["spec"]["versions"][0]["subresources"] = {"scale": GOOD | change}
    answer = (await client.post(DEFINITIONS, json=made)).json()
    causes = answer.get("details", {}).get("causes", [])
    field = "spec.versions[0].subresources.scale."
    told = [f"{cause['field'].removeprefix(field)}: {cause['message']}" for cause in causes]
    value = next(iter(change.values()))
    assert [text.replace(f': "{value}":', ":") for text in told] == expected
