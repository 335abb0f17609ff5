"""Whatever is sent, the answer is a Status and the server goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from headgate.apiserver import Config
from headgate.apiserver.app import application
from headgate.apiserver.parts import Parts

JSON = {"content-type": "application/json"}


async def test_a_body_above_three_megabytes_is_refused(client: httpx2.AsyncClient, config_maps: str) -> None:
    """Both a declared and an undeclared length are bounded."""

    async def endless() -> Any:
        for _ in range(64):
            yield b" " * 100_000

    declared = await client.post(config_maps, content=b" " * (3 * 1024 * 1024 + 1), headers=JSON)
    undeclared = await client.post(config_maps, content=endless(), headers=JSON)
    assert declared.status_code == undeclared.status_code == 413


async def test_an_object_that_etcd_would_not_take_is_refused(
    client: httpx2.AsyncClient, widget: Any, widgets: str
) -> None:
    """An object of more than 1.5 MB works nowhere, so not here either."""
    big = widget("big", tags=["x" * 1_600_000])
    assert (await client.post(widgets, json=big)).status_code == 413


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b'{"metadata": 3}',
        b'{"metadata": {"labels": {"a": 1}}}',
        b'{"metadata": {"name": 5}}',
        b'{"metadata": {"name": "x", "ownerReferences": [1]}}',
        b"\xff\xfe",
        b'{"a":' * 100_000,
        b'{"data":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"data":' + b"[" * 500 + b"]" * 500 + b"}",
        b'{"data": "\\ud800"}',
    ],
)
async def test_garbage_is_a_bad_request(client: httpx2.AsyncClient, config_maps: str, body: bytes) -> None:
    """What is no object, or has metadata of wrong types, is 400 with a Status."""
    answer = await client.post(config_maps, content=body, headers=JSON)
    assert (answer.status_code, answer.json()["kind"]) == (400, "Status")


async def test_a_yaml_bomb_is_refused(client: httpx2.AsyncClient, config_maps: str) -> None:
    """YAML aliases, which make gigabytes out of a few lines, are not taken."""
    bomb = b"a: &a [x,x,x]\nb: &b [*a,*a,*a]\nmetadata: {name: x}\ndata: {c: *b}\n"
    answer = await client.post(config_maps, content=bomb, headers={"content-type": "application/yaml"})
    assert answer.status_code == 400
    assert "aliases" in answer.json()["message"]


async def test_long_yaml_is_refused(client: httpx2.AsyncClient, config_maps: str) -> None:
    """It takes so long to read that others would wait; the answer says what to send instead."""
    body = b"metadata: {name: y}\ndata:\n" + b"".join(b"  k%d: x\n" % number for number in range(40_000))
    answer = await client.post(config_maps, content=body, headers={"content-type": "application/yaml"})
    assert answer.status_code == 413
    assert answer.json()["message"] == "Request entity too large: limit is 262144 bytes of YAML: send JSON"


async def test_a_body_of_too_many_values_is_refused(client: httpx2.AsyncClient, config_maps: str) -> None:
    """What judging an object costs goes by its values, of which three megabytes can have a million."""
    flat = b'{"metadata":{"name":"x"},"data":{' + b",".join(b'"%d":1' % n for n in range(100_000)) + b"}}"
    deep = b'{"metadata":{"name":"x"},"data":[' + b"[[]]," * 50_000 + b"1]}"
    fitting = b'{"metadata":{"name":"x"},"data":{' + b",".join(b'"%d":1' % n for n in range(99_000)) + b"}}"
    answers = [await client.post(config_maps, content=body, headers=JSON) for body in (flat, deep, fitting)]
    assert [answer.status_code for answer in answers] == [413, 413, 422]
    told = "Request entity too large: limit is 100000 fields and items"
    assert [answer.json()["message"] for answer in answers[:2]] == [told, told]


async def test_patches_cannot_add_up_to_too_many_values(client: httpx2.AsyncClient, config_maps: str) -> None:
    """What counts is the object that a patch makes, with the managedFields that it has already."""
    half = {f"a{number}": "" for number in range(30_000)}
    other = {f"b{number}": "" for number in range(45_000)}
    assert (await client.post(config_maps, json={"metadata": {"name": "x"}, "data": half})).status_code == 201
    for media in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
        body = msgspec.json.encode({"data": other})
        answer = await client.patch(f"{config_maps}/x", content=body, headers={"content-type": media})
        assert answer.json()["message"] == "Request entity too large: limit is 100000 fields and items"


async def test_others_are_served_while_yaml_is_read(client: httpx2.AsyncClient, config_maps: str) -> None:
    """A long YAML body is read in a thread: who asks later is answered earlier."""
    body = b"metadata: {name: y}\ndata:\n" + b"".join(b"  k%d: x\n" % number for number in range(4000))
    answered = []

    async def create() -> None:
        answer = await client.post(config_maps, content=body, headers={"content-type": "application/yaml"})
        answered.append(answer.status_code)

    async def ask() -> None:
        answered.append((await client.get(f"{config_maps}/nobody")).status_code)

    await asyncio.gather(create(), ask())
    assert answered == [404, 201]


async def test_yaml_is_taken_as_json_would_be(client: httpx2.AsyncClient, config_maps: str) -> None:
    """A YAML body is stored like its JSON; what looks like a date stays text."""
    body = b"metadata: {name: y}\ndata: {when: 2024-01-01}\n"
    answer = await client.post(config_maps, content=body, headers={"content-type": "application/yaml"})
    assert (answer.status_code, answer.json()["data"]) == (201, {"when": "2024-01-01"})


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("", {"limit": "-1"}),
        ("", {"limit": "x"}),
        ("", {"continue": "%%%"}),
        ("", {"labelSelector": "a=b=c"}),
        ("", {"labelSelector": "x" * 20_000}),
        ("", {"fieldSelector": "nonsense"}),
        ("", {"watch": "true", "resourceVersion": "abc"}),
        ("", {"watch": "true", "timeoutSeconds": "-5"}),
    ],
)
async def test_a_bad_query_is_a_bad_request(
    client: httpx2.AsyncClient, config_maps: str, path: str, params: dict[str, str]
) -> None:
    """Each query parameter is checked before it is used."""
    answer = await client.get(config_maps + path, params=params)
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")


async def test_the_number_of_objects_is_bounded(tmp_path: Path) -> None:
    """At the limit a create is forbidden; a delete makes room."""
    parts = Parts(Config(tmp_path, definitions=[], max_objects=5))
    headers = {"authorization": "Bearer t"}
    transport = httpx2.ASGITransport(application(parts, "t"))
    url = "/api/v1/namespaces/default/configmaps"
    async with httpx2.AsyncClient(transport=transport, base_url="https://t", headers=headers) as client:
        codes = [(await client.post(url, json={"metadata": {"name": n}})).status_code for n in ("a", "b")]
        await client.delete(f"{url}/a")
        codes.append((await client.post(url, json={"metadata": {"name": "b"}})).status_code)
    parts.store.close()
    assert codes == [201, 403, 201]


async def test_the_bytes_of_all_objects_are_bounded(tmp_path: Path) -> None:
    """At the limit nothing is written any more, reads go on, and a delete makes room."""
    parts = Parts(Config(tmp_path, definitions=[], max_bytes=100_000))
    headers = {"authorization": "Bearer t"}
    url = "/api/v1/namespaces/default/configmaps"
    big = {"metadata": {"name": "big"}, "data": {"k": "x" * 100_000}}
    small = {"metadata": {"name": "small"}}
    merge = {"content-type": "application/merge-patch+json"}
    transport = httpx2.ASGITransport(application(parts, "t"))
    async with httpx2.AsyncClient(transport=transport, base_url="https://t", headers=headers) as client:
        assert (await client.post(url, json=big)).status_code == 201
        refused = await client.post(url, json=small)
        patched = await client.patch(f"{url}/big", json={"data": {"k2": "y"}}, headers=merge)
        assert (refused.status_code, patched.status_code) == (403, 403)
        assert "exceeded the limit of 100000 bytes" in refused.json()["message"]
        assert (await client.get(url)).status_code == 200
        assert (await client.delete(f"{url}/big")).status_code == 200
        assert (await client.post(url, json=small)).status_code == 201
    parts.store.close()


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        (
            "POST",
            {"dryRun": "x"},
            'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["x"]',
        ),
        ("POST", {"fieldValidation": "x"}, 'supported values: "", "Ignore", "Strict", "Warn"'),
        ("POST", {"fieldManager": "x" * 129}, "fieldManager: Too long: may not be more than 128 bytes"),
        ("PUT", {"fieldManager": "a\tb"}, "fieldManager: Invalid value: "),
        ("PATCH", {"force": "true"}, "force: Forbidden: may not be specified for non-apply patch"),
        (
            "DELETE",
            {"propagationPolicy": "x"},
            'supported values: "Foreground", "Background", "Orphan", "nil"',
        ),
        ("DELETE", {"dryRun": "x"}, "DeleteOptions.meta.k8s.io"),
    ],
)
async def test_options_of_a_write_are_checked_first(
    client: httpx2.AsyncClient, config_maps: str, method: str, params: dict[str, str], words: str
) -> None:
    """422 in Kubernetes' words, with nothing done."""
    await client.post(config_maps, json={"metadata": {"name": "x"}})
    url = config_maps if method == "POST" else f"{config_maps}/x"
    headers = {"content-type": "application/merge-patch+json"} if method == "PATCH" else JSON
    body = b"" if method == "DELETE" else b'{"metadata": {"name": "x"}}'
    answer = await client.request(method, url, params=params, content=body, headers=headers)
    assert answer.status_code == 422
    assert words in answer.json()["message"]
    assert (await client.get(f"{config_maps}/x")).status_code == 200


async def test_a_delete_takes_one_way_of_saying_it(client: httpx2.AsyncClient, config_maps: str) -> None:
    """orphanDependents is the old way to say propagationPolicy; both are too much."""
    await client.post(config_maps, json={"metadata": {"name": "x"}})
    both = {"orphanDependents": True, "propagationPolicy": "Orphan"}
    answer = await client.request("DELETE", f"{config_maps}/x", json=both)
    assert answer.status_code == 422
    assert "cannot be both set" in answer.json()["message"]


@pytest.mark.parametrize("options", [{"propagationPolicy": "x"}, {"dryRun": ["x"]}])
async def test_options_in_the_body_of_a_delete_are_checked_as_well(
    client: httpx2.AsyncClient, config_maps: str, options: Any
) -> None:
    """422 in Kubernetes' words, whether they came in the query or in the body."""
    await client.post(config_maps, json={"metadata": {"name": "x"}})
    answer = await client.request("DELETE", f"{config_maps}/x", json=options)
    assert answer.status_code == 422
    (field,) = options
    assert (
        f'DeleteOptions.meta.k8s.io "" is invalid: {field}: Unsupported value: ' in answer.json()["message"]
    )
    assert (await client.get(f"{config_maps}/x")).status_code == 200


async def test_a_revision_that_nobody_reached_is_no_fault_of_the_server(
    client: httpx2.AsyncClient, config_maps: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that asks for a later resourceVersion gets 504, and no traceback fills the log."""
    answer = await client.get(config_maps, params={"resourceVersion": "99999"})
    assert answer.status_code == 504
    assert not caplog.records


@pytest.mark.parametrize("value", ["true", "1", "", "yes"])
async def test_a_flag_is_on_with_any_value_but_false_and_0(
    client: httpx2.AsyncClient, config_maps: str, value: str
) -> None:
    """As in Kubernetes: `?watch` alone watches, and so does `watch=yes`."""
    params = {"watch": value, "timeoutSeconds": "1", "resourceVersionMatch": "Exact"}
    refused = await client.get(config_maps, params=params)
    assert "forbidden for watch" in refused.json()["message"]
    assert (await client.get(config_maps, params={"watch": "False"})).json()["kind"] == "ConfigMapList"
