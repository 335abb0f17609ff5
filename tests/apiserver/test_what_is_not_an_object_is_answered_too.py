"""Health, version, paths, OpenAPI documents and compression."""

from __future__ import annotations

import gzip
from typing import Any

import httpx2
import pytest

ENTRY = "/openapi/v3"


@pytest.mark.parametrize("endpoint", ["healthz", "livez", "readyz"])
async def test_health_is_told_in_a_word_or_in_lines(client: httpx2.AsyncClient, endpoint: str) -> None:
    """ok for machines; ?verbose lists the checks, ?exclude leaves one out, and each has a path."""
    assert (await client.get(f"/{endpoint}")).text == "ok"
    shown = (await client.get(f"/{endpoint}?verbose&exclude=store")).text.splitlines()
    assert shown[0] == "[+]ping ok"
    assert "[+]store ok" not in shown
    assert shown[-1] == f"{endpoint} check passed"
    assert (await client.get(f"/{endpoint}/ping")).text == "ok"
    assert (await client.get(f"/{endpoint}/nothing")).status_code == 404


async def test_a_server_that_ends_is_alive_and_not_ready(client: httpx2.AsyncClient, parts: Any) -> None:
    """readyz fails and says by which check; livez does not."""
    parts.hub.close()
    answer = await client.get("/readyz")
    assert answer.status_code == 500
    assert "[-]shutdown failed: reason withheld" in answer.text
    assert (await client.get("/livez")).status_code == 200


async def test_version_and_paths_are_complete(client: httpx2.AsyncClient) -> None:
    """Clients with strict types want every field of the version; / lists the groups."""
    version = (await client.get("/version")).json()
    assert {"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"} <= set(version)
    paths = (await client.get("/")).json()["paths"]
    assert {"/api/v1", "/apis/apps/v1", "/apis/test.example/v1", "/readyz"} <= set(paths)
    for path in ("/api/", "/apis/"):
        assert (await client.get(path)).json()["kind"] in ("APIVersions", "APIGroupList")


async def test_documents_are_known_by_their_hash(client: httpx2.AsyncClient, widget_definition: Any) -> None:
    """A document is not sent again to who has it; a change of the kind changes hash and URL."""
    index = (await client.get(ENTRY)).json()["paths"]
    url = index["apis/test.example/v1"]["serverRelativeURL"]
    answer = await client.get(url)
    assert "immutable" in answer.headers["cache-control"]
    again = await client.get(url, headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    name = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.test.example"
    definition = (await client.get(name)).json()
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "Another."
    assert (await client.put(name, json=definition)).status_code == 200
    moved = (await client.get(ENTRY)).json()["paths"]
    assert moved["apis/test.example/v1"]["serverRelativeURL"] != url
    assert moved["apis/apps/v1"] == index["apis/apps/v1"]
    redirect = await client.get(url, follow_redirects=False)
    assert (redirect.status_code, redirect.headers["location"]) == (
        301,
        moved["apis/test.example/v1"]["serverRelativeURL"],
    )
    assert "Another." in (await client.get(url, follow_redirects=True)).text


async def test_large_answers_are_compressed_on_request(client: httpx2.AsyncClient, config_maps: str) -> None:
    """From 128 KB on, for clients that take gzip; small answers and other clients get plain ones."""
    small = await client.get(config_maps, headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in small.headers
    big = {"metadata": {"name": "big"}, "data": {"k": "x" * 200_000}}
    assert (await client.post(config_maps, json=big)).status_code == 201
    async with client.stream("GET", config_maps, headers={"accept-encoding": "br, gzip;q=0.9"}) as answer:
        raw = b"".join([chunk async for chunk in answer.aiter_raw()])
        assert answer.headers["content-encoding"] == "gzip"
    plain = await client.get(config_maps, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(raw) == plain.content
    refused = await client.get(config_maps, headers={"accept-encoding": "gzip;q=0"})
    assert "content-encoding" not in refused.headers
