"""stringData is how people write a Secret; data is how it is kept."""

from __future__ import annotations

import httpx2

SECRETS = "/api/v1/namespaces/default/secrets"


async def test_text_is_kept_under_data(client: httpx2.AsyncClient) -> None:
    """Text goes to data as base64, beside what is there and over what has its name, on every write."""
    secret = {"metadata": {"name": "s"}, "data": {"a": "b2xk", "b": "Yg=="}, "stringData": {"a": "new"}}
    created = (await client.post(SECRETS, json=secret)).json()
    assert (created["data"], created["type"]) == ({"a": "bmV3", "b": "Yg=="}, "Opaque")
    assert "stringData" not in created
    patched = await client.patch(
        f"{SECRETS}/s",
        json={"stringData": {"c": "\u00e9"}},
        headers={"content-type": "application/merge-patch+json"},
    )
    assert patched.json()["data"] == {"a": "bmV3", "b": "Yg==", "c": "w6k="}


async def test_text_that_is_none_is_refused(client: httpx2.AsyncClient) -> None:
    """A number is no text, and is named."""
    refused = await client.post(SECRETS, json={"metadata": {"name": "s"}, "stringData": {"a": 1}})
    assert refused.status_code == 422
    assert "stringData.a" in refused.json()["message"]


async def test_data_that_is_not_base64_is_refused_and_not_shown(client: httpx2.AsyncClient) -> None:
    """Somebody who forgot to encode a password learns so, and finds it in no message."""
    data = {"a": "hunter2!", "b": "b2s=", "c": "b2\ns="}
    refused = await client.post(SECRETS, json={"metadata": {"name": "s"}, "data": data})
    assert refused.status_code == 422
    message = refused.json()["message"]
    assert 'data[a]: Invalid value: "<contents redacted>": must be base64' in message
    assert "hunter2" not in refused.text
    assert "data[c]" not in message
