"""Validation tells everything that is wrong in one answer, with field paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from headgate.apiserver import Config
from headgate.apiserver.app import application
from headgate.apiserver.parts import Parts


async def test_metadata_and_spec_errors_come_together(
    client: httpx2.AsyncClient, widget: Any, widgets: str
) -> None:
    """A bad name, a bad label, a bad enum value and a bad number are four causes of one refusal."""
    answer = await client.post(
        widgets, json=widget("Bad_Name", labels={"k": "no spaces"}, color="green", size=-1)
    )
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")
    status = answer.json()
    causes = {cause["field"]: cause for cause in status["details"]["causes"]}
    assert causes.keys() >= {"metadata.name", "metadata.labels", "spec.color", "spec.size"}
    assert causes["spec.color"]["message"] == 'Unsupported value: "green": supported values: "red", "blue"'
    assert causes["spec.color"]["reason"] == "FieldValueNotSupported"
    assert status["message"].startswith('Widget.test.example "Bad_Name" is invalid: [')


async def test_a_malformed_model_route_is_refused_with_every_error(tmp_path: Path) -> None:
    """A ModelRoute with a bad weight, a wrong type, an unknown unit and no Redis address is told all four."""
    parts = Parts(Config(tmp_path))
    route = {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": "r"},
        "spec": {
            "modelName": "m",
            "rules": [
                {"name": "a", "targetModels": [{"modelServerName": "s", "weight": 101}]},
                {"name": 3, "targetModels": [{"modelServerName": "s"}]},
            ],
            "rateLimit": {"unit": "fortnight", "global": {"redis": {}}},
        },
    }
    headers = {"authorization": "Bearer t"}
    transport = httpx2.ASGITransport(application(parts, "t"))
    async with httpx2.AsyncClient(transport=transport, base_url="https://t", headers=headers) as client:
        answer = await client.post(
            "/apis/networking.volcano.sh/v1alpha1/namespaces/default/modelroutes", json=route
        )
    parts.store.close()
    fields = {cause["field"] for cause in answer.json()["details"]["causes"]}
    assert answer.status_code == 422
    assert {
        "spec.rules[0].targetModels[0].weight",
        "spec.rules[1].name",
        "spec.rateLimit.unit",
        "spec.rateLimit.global.redis.address",
    } <= fields


async def test_unknown_and_duplicate_fields_are_handled_as_asked(
    client: httpx2.AsyncClient, widget: Any, widgets: str
) -> None:
    """Strict refuses them, Warn stores without them and says so, Ignore is silent."""
    body = (
        b'{"apiVersion":"test.example/v1","kind":"Widget","metadata":{"name":"w","nick":"x"},'
        b'"spec":{"color":"red","color":"blue","shape":1}}'
    )

    async def post(validation: str) -> httpx2.Response:
        params = {"fieldValidation": validation, "dryRun": "All"}
        return await client.post(
            widgets, content=body, params=params, headers={"content-type": "application/json"}
        )

    strict = await post("Strict")
    assert strict.status_code == 400
    assert strict.json()["message"] == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: '
        'duplicate field "spec.color", '
        'unknown field "metadata.nick", unknown field "spec.shape"'
    )
    warned = await post("Warn")
    assert warned.status_code == 201
    assert warned.headers.get_list("warning") == [
        '299 - "duplicate field \\"spec.color\\""',
        '299 - "unknown field \\"metadata.nick\\""',
        '299 - "unknown field \\"spec.shape\\""',
    ]
    assert warned.json()["spec"] == {"color": "blue", "size": 1}
    ignored = await post("Ignore")
    assert "warning" not in ignored.headers


async def test_the_kind_must_be_that_of_the_path(
    client: httpx2.AsyncClient, widget: Any, widgets: str
) -> None:
    """An object of another kind than the path's is invalid, and one of another version a bad request."""
    for change, code, told in (
        (
            {"kind": "Gadget"},
            422,
            'Gadget.test.example "w" is invalid: kind: Invalid value: "Gadget": must be Widget',
        ),
        (
            {"apiVersion": "test.example/v2"},
            400,
            "the API version in the data (test.example/v2) does not match the expected API version "
            "(test.example/v1)",
        ),
    ):
        answer = await client.post(widgets, json=widget() | change)
        assert (answer.status_code, answer.json()["message"]) == (code, told)


async def test_names_of_containers_are_labels_and_unique(client: httpx2.AsyncClient) -> None:
    """The node makes directories of them, and tells containers apart by them."""
    containers = [{"name": "a"}, {"name": "../b"}, {"name": "a"}]
    pod = {"metadata": {"name": "p"}, "spec": {"containers": containers}}
    refused = await client.post("/api/v1/namespaces/default/pods", json=pod)
    assert refused.status_code == 422
    fields = {cause["field"] for cause in refused.json()["details"]["causes"]}
    assert fields == {"spec.containers[1].name", "spec.containers[2]"}


async def test_keys_that_are_twice_in_yaml_are_told(client: httpx2.AsyncClient, config_maps: str) -> None:
    """A YAML body is checked as its JSON would be: Strict refuses, Warn warns, Ignore takes the last."""
    body = b"metadata:\n  name: y\ndata:\n  a: first\n  a: last\n"
    headers = {"content-type": "application/yaml"}

    async def post(validation: str) -> httpx2.Response:
        params = {"fieldValidation": validation, "dryRun": "All"}
        return await client.post(config_maps, content=body, headers=headers, params=params)

    strict = await post("Strict")
    assert strict.status_code == 400
    assert 'line 5: key "a" already set in map' in strict.json()["message"]
    warned = await post("Warn")
    assert "already set in map" in warned.headers["warning"]
    ignored = await post("Ignore")
    assert (ignored.json()["data"], "warning" in ignored.headers) == ({"a": "last"}, False)


@pytest.mark.parametrize("body", [{}, {"metadata": {}}, {"metadata": {"name": "n"}, "spec": "x"}])
async def test_a_namespace_that_is_none_is_invalid(client: httpx2.AsyncClient, body: Any) -> None:
    """What the server sets in a new Namespace does not hide what is wrong with it."""
    answer = await client.post("/api/v1/namespaces", json=body)
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")


async def test_a_list_beyond_its_limit_is_refused_for_its_length(tmp_path: Path) -> None:
    """Tens of thousands of items are one error, and are not looked at one by one."""
    parts = Parts(Config(tmp_path))
    route = {
        "metadata": {"name": "long"},
        "spec": {"loraAdapters": [""] * 90_000, "rules": [{"targetModels": [{"modelServerName": "s"}]}]},
    }
    headers = {"authorization": "Bearer t"}
    transport = httpx2.ASGITransport(application(parts, "t"))
    async with httpx2.AsyncClient(transport=transport, base_url="https://t", headers=headers) as client:
        answer = await client.post(
            "/apis/networking.volcano.sh/v1alpha1/namespaces/default/modelroutes", json=route
        )
    parts.store.close()
    assert answer.status_code == 422
    causes = [(cause["field"], cause["reason"]) for cause in answer.json()["details"]["causes"]]
    assert ("spec.loraAdapters", "FieldValueTooMany") in causes
    assert len(causes) < 20
