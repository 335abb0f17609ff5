"""A version that its definition calls deprecated is served, and says so to everybody who asks for it."""

from __future__ import annotations

import copy
from typing import Any

import httpx2
import pytest

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def with_old(definition: Any, **fields: Any) -> Any:
    """The definition of another kind with two versions, of which v1beta1 has these fields."""
    made = copy.deepcopy(definition)
    made["metadata"]["name"] = "gadgets.test.example"
    made["spec"]["names"] = {"kind": "Gadget", "plural": "gadgets"}
    old = {**copy.deepcopy(made["spec"]["versions"][0]), "name": "v1beta1", "storage": False, **fields}
    made["spec"]["versions"].append(old)
    return made


@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        ({"deprecated": True}, "test.example/v1beta1 Gadget is deprecated"),
        ({"deprecated": True, "deprecationWarning": 'use "v1"'}, 'use \\"v1\\"'),
    ],
)
async def test_every_request_is_warned(
    client: httpx2.AsyncClient, widget_definition: Any, fields: Any, warning: str
) -> None:
    """Reads and writes of the old version carry a Warning header, those of the new one do not."""
    assert (await client.post(DEFINITIONS, json=with_old(widget_definition, **fields))).status_code == 201
    old, new = (f"/apis/test.example/{v}/namespaces/default/gadgets" for v in ("v1beta1", "v1"))
    made = await client.post(old, json={"metadata": {"name": "g"}, "spec": {"color": "red"}})
    assert made.status_code == 201
    for answer in (made, await client.get(old), await client.get(f"{old}/g")):
        assert answer.headers["warning"] == f'299 - "{warning}"'
    assert "warning" not in (await client.get(new)).headers


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"deprecationWarning": "x"}, "can only be set for deprecated versions"),
        ({"deprecated": "yes"}, "must be of type boolean"),
        ({"deprecated": True, "deprecationWarning": "x" * 300}, "must be 1 to 256 printable characters"),
    ],
)
async def test_a_deprecation_that_says_nothing_is_refused(
    client: httpx2.AsyncClient, widget_definition: Any, fields: Any, words: str
) -> None:
    """The refusal names the field of the version."""
    answer = await client.post(DEFINITIONS, json=with_old(widget_definition, **fields))
    assert answer.status_code == 422
    assert words in answer.json()["message"]
    assert "spec.versions[1].deprecat" in answer.json()["message"]
