"""Who asks for application/yaml gets what JSON would have said, in YAML."""

from __future__ import annotations

import httpx2
import pytest
import yaml

CONFIGS = "/api/v1/namespaces/default/configmaps"
YAML = {"accept": "application/yaml"}
TABLE = {"accept": "application/yaml;as=Table;v=v1;g=meta.k8s.io"}


async def test_an_object_a_list_and_a_table(client: httpx2.AsyncClient) -> None:
    """What was written as YAML reads back as YAML; texts that look like something else stay texts."""
    data = {"yes": "on", "number": "1", "lines": "a\nb\n"}
    body = yaml.safe_dump({"metadata": {"name": "c"}, "data": data})
    made = await client.post(CONFIGS, content=body, headers={**YAML, "content-type": "application/yaml"})
    assert (made.status_code, made.headers["content-type"]) == (201, "application/yaml")
    assert yaml.safe_load(made.text)["data"] == data
    for url in (f"{CONFIGS}/c", CONFIGS, "/apis/apps/v1"):
        told = await client.get(url, headers=YAML)
        assert yaml.safe_load(told.text) == (await client.get(url)).json()
        assert not told.text.startswith("{")
    table = yaml.safe_load((await client.get(CONFIGS, headers=TABLE)).text)
    assert (table["kind"], table["rows"][0]["cells"][0]) == ("Table", "c")


async def test_refusals_are_in_yaml_too(client: httpx2.AsyncClient) -> None:
    """A Status, as for everything else."""
    refused = await client.get(f"{CONFIGS}/none", headers=YAML)
    assert refused.status_code == 404
    assert yaml.safe_load(refused.text)["reason"] == "NotFound"


async def test_json_is_answered_to_who_takes_it_first(client: httpx2.AsyncClient) -> None:
    """The order of the client counts; anything means JSON."""
    for accept in ("application/json, application/yaml", "*/*", "application/*, application/yaml"):
        told = await client.get(CONFIGS, headers={"accept": accept})
        assert told.headers["content-type"] == "application/json"


async def test_a_long_answer_stays_on_one_line(client: httpx2.AsyncClient) -> None:
    """JSON is YAML: a list of megabytes is not laid out while everybody waits."""
    for number in range(3):
        body = {"metadata": {"name": f"c{number}"}, "data": {"text": "x" * 100_000}}
        await client.post(CONFIGS, json=body)
    told = await client.get(CONFIGS, headers=YAML)
    assert told.headers["content-type"] == "application/yaml"
    assert told.text.startswith("{")
    assert len(yaml.safe_load(told.text)["items"]) == 3


@pytest.mark.parametrize(
    ("url", "accept"), [(CONFIGS, "text/html"), (f"{CONFIGS}?watch=1", "application/yaml")]
)
async def test_what_there_is_not_is_not_acceptable(client: httpx2.AsyncClient, url: str, accept: str) -> None:
    """Other forms, and events in YAML."""
    refused = await client.get(url, headers={"accept": accept})
    assert refused.status_code == 406
    assert "application/json" in yaml.safe_load(refused.text)["message"]
