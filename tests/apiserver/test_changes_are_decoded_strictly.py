"""Unknown and duplicate fields that a patch or an apply brings are told in the words of Kubernetes."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

CONFIGS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
STRICT = {"fieldValidation": "Strict"}
CONTAINERS = [{"name": "c", "image": "i"}]


@pytest.fixture
async def config(client: httpx2.AsyncClient) -> str:
    """The URL of a ConfigMap."""
    await client.post(CONFIGS, json={"metadata": {"name": "c"}, "data": {"a": "1"}})
    return f"{CONFIGS}/c"


async def patch(client: httpx2.AsyncClient, url: str, kind: str, body: str, **params: str) -> httpx2.Response:
    media = kind if kind.endswith("yaml") else f"{kind}+json"
    headers = {"content-type": f"application/{media}"}
    return await client.patch(url, content=body, params=params, headers=headers)


@pytest.mark.parametrize(
    ("kind", "body", "told"),
    [
        ("merge-patch", '{"dta":{"b":"2"}}', 'strict decoding error: unknown field "dta"'),
        (
            "json-patch",
            '[{"op":"add","path":"/dta","value":1}]',
            'strict decoding error: unknown field "dta"',
        ),
        (
            "json-patch",
            '[{"op":"add","op":"add","path":"/data/b","value":"2"}]',
            'strict decoding error: json patch duplicate field "[0].op"',
        ),
        (
            "strategic-merge-patch",
            '{"data":{"b":"2","b":"3"},"dta":{"y":[1,true],"x":null}}',
            'map[data:map[b:3] dta:map[x:<nil> y:[1 true]]]": '
            'strict decoding error: duplicate field "data.b", unknown field "dta"',
        ),
    ],
)
async def test_a_strict_patch_is_refused_as_invalid(
    client: httpx2.AsyncClient, config: str, kind: str, body: str, told: str
) -> None:
    """It is the result of the patch that is no object of the kind; nothing changes."""
    answer = await patch(client, config, kind, body, **STRICT)
    status = answer.json()
    assert (answer.status_code, status["reason"]) == (422, "Invalid")
    assert status["message"].startswith(' "" is invalid: patch: Invalid value: "')
    assert status["message"].endswith(told)
    assert status["details"]["causes"][0]["field"] == "patch"
    assert (await client.get(config)).json()["data"] == {"a": "1"}


async def test_a_patch_that_is_not_strict_warns(client: httpx2.AsyncClient, config: str) -> None:
    """The rest of the patch is done."""
    answer = await patch(client, config, "merge-patch", '{"dta":1,"data":{"b":"2","b":"3"}}')
    assert answer.json()["data"] == {"a": "1", "b": "3"}
    told = answer.headers.get_list("warning")
    assert told == ['299 - "duplicate field \\"data.b\\""', '299 - "unknown field \\"dta\\""']


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
async def test_an_apply_of_unknown_fields_is_refused(client: httpx2.AsyncClient, validation: str) -> None:
    """Nobody can own what is not declared, whatever the validation; items are named by their keys."""
    spec: dict[str, Any] = {"containers": [{**CONTAINERS[0], "imgae": "j"}], "hostNetwrk": True}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    applied: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "lables": {}},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    answer = await client.patch(
        f"{DEPLOYMENTS}/d",
        json=applied,
        params={"fieldManager": "m", "fieldValidation": validation},
        headers={"content-type": "application/apply-patch+yaml"},
    )
    assert answer.status_code == 400
    assert answer.json()["message"] == (
        "failed to create typed patch object (/d; apps/v1, Kind=Deployment): errors:\n"
        "  .metadata.lables: field not declared in schema\n"
        '  .spec.template.spec.containers[name="c"].imgae: field not declared in schema\n'
        "  .spec.template.spec.hostNetwrk: field not declared in schema"
    )


async def test_an_apply_with_a_field_twice_is_refused_if_strict(client: httpx2.AsyncClient) -> None:
    """What is applied is YAML for Kubernetes, and the refusal says so."""
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: n}\ndata:\n  a: x\n  a: y\n"
    kind = "apply-patch+yaml"
    refused = await patch(client, f"{CONFIGS}/n", kind, body, fieldManager="m", **STRICT)
    assert refused.status_code == 400
    assert refused.json()["message"] == (
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
        '  line 6: key "a" already set in map'
    )
    made = await patch(client, f"{CONFIGS}/n", kind, body, fieldManager="m")
    assert made.json()["data"] == {"a": "y"}
    assert made.headers.get_list("warning") == ['299 - "line 6: key \\"a\\" already set in map"']
