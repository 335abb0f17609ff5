"""A ServiceAccount has a token for each request: it says who shows it, for a time and for some audiences."""

from __future__ import annotations

import base64
import json
import stat
from typing import Any

import httpx2
import pytest

from headgate.apiserver.account_tokens import AccountTokens
from headgate.apiserver.targets import Target

Object = dict[str, Any]

DEFAULT = "/api/v1/namespaces/default/serviceaccounts/default"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
API = "https://kubernetes.default.svc"
PODS = "/api/v1/namespaces/default/pods"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def issue(client: httpx2.AsyncClient, account: str = DEFAULT, **spec: Any) -> Object:
    answer = await client.post(f"{account}/token", json={"spec": spec})
    assert answer.status_code == 201, answer.text
    issued: Object = answer.json()
    return issued


async def review(client: httpx2.AsyncClient, token: str, *audiences: str) -> Object:
    answer = await client.post(REVIEWS, json={"spec": {"token": token, "audiences": list(audiences)}})
    assert answer.status_code == 201, answer.text
    status: Object = answer.json()["status"]
    return status


def claims(token: str) -> Object:
    payload = token.split(".")[1]
    decoded: Object = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return decoded


async def test_a_review_tells_whose_token_it_is(client: httpx2.AsyncClient) -> None:
    """The account, with its groups; and a request with the token is that of the account, without rights."""
    token = (await issue(client))["status"]["token"]
    uid = (await client.get(DEFAULT)).json()["metadata"]["uid"]
    assert await review(client, token) == {
        "authenticated": True,
        "audiences": [API],
        "user": {
            "username": "system:serviceaccount:default:default",
            "uid": uid,
            "groups": [
                "system:authenticated",
                "system:serviceaccounts",
                "system:serviceaccounts:default",
            ],
        },
    }
    own = {"authorization": f"Bearer {token}"}
    me = await client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={}, headers=own)
    assert me.json()["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"
    assert (await client.get("/apis", headers=own)).status_code == 200
    assert (await client.get(PODS, headers=own)).status_code == 403
    assert (await client.post(f"{DEFAULT}/token", json={}, headers=own)).status_code == 403


@pytest.mark.parametrize(
    ("asked_s", "lasts_s"), [(None, 3600), (600, 600), (86_400, 86_400), (1 << 32, 86_400)], ids=str
)
async def test_a_token_lasts_as_long_as_wanted_up_to_a_day(
    client: httpx2.AsyncClient, asked_s: int | None, lasts_s: int
) -> None:
    issued = await issue(client, **({} if asked_s is None else {"expirationSeconds": asked_s}))
    assert issued["spec"]["expirationSeconds"] == lasts_s
    told = claims(issued["status"]["token"])
    assert told["exp"] - told["iat"] == lasts_s


async def test_a_token_ends(client: httpx2.AsyncClient, parts: Any) -> None:
    """At its time, also after a restart of the server; another server does not know it."""
    clock = [1000.0]
    state = parts.account_tokens._path.parent.parent
    tokens = AccountTokens(state, parts.store, now=lambda: clock[0])
    target = parts.registry.find("", "v1", "serviceaccounts")
    token = tokens.issue(Target(target, "default", "default", "token"), {})["status"]["token"]
    assert stat.S_IMODE((state / "pki" / "accounts.key").stat().st_mode) == 0o600
    restarted = AccountTokens(state, parts.store, now=lambda: clock[0])
    other = AccountTokens(state / "other", parts.store, now=lambda: clock[0])
    for clock[0], is_valid in ((999.0, False), (1000.0, True), (4599.0, True), (4600.0, False)):
        assert (tokens.user(token) is not None) is is_valid
        assert (restarted.user(token) is not None) is is_valid
        assert other.user(token) is None


async def test_a_token_is_for_its_audiences(client: httpx2.AsyncClient) -> None:
    """One for another service does not open this server."""
    token = (await issue(client, audiences=["vault", "sts"]))["status"]["token"]
    assert (await review(client, token, "sts", "other"))["audiences"] == ["sts"]
    for audiences in ((), ("other",), (API,)):
        status = await review(client, token, *audiences)
        assert "authenticated" not in status
        assert "is invalid for the target audiences" in status["error"]
    refused = await client.get("/apis", headers={"authorization": f"Bearer {token}"})
    assert refused.status_code == 401


async def test_a_token_ends_with_its_account(client: httpx2.AsyncClient) -> None:
    """Another account of the same name is another one."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await client.post(accounts, json={"metadata": {"name": "a"}})
    token = (await issue(client, f"{accounts}/a"))["status"]["token"]
    assert (await review(client, token))["authenticated"]
    await client.delete(f"{accounts}/a")
    assert "authenticated" not in await review(client, token)
    await client.post(accounts, json={"metadata": {"name": "a"}})
    assert "authenticated" not in await review(client, token)


async def test_a_token_ends_with_the_pod_that_it_is_bound_to(client: httpx2.AsyncClient) -> None:
    pod = (await client.post(PODS, json=POD)).json()
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    wrong = {"spec": {"boundObjectRef": {**reference, "uid": "other"}}}
    assert (await client.post(f"{DEFAULT}/token", json=wrong)).status_code == 409
    absent = {"spec": {"boundObjectRef": {**reference, "name": "absent"}}}
    assert (await client.post(f"{DEFAULT}/token", json=absent)).status_code == 404
    issued = await issue(client, boundObjectRef={**reference, "uid": pod["metadata"]["uid"]})
    assert issued["spec"]["boundObjectRef"]["uid"] == pod["metadata"]["uid"]
    assert (await review(client, issued["status"]["token"]))["authenticated"]
    await client.delete(f"{PODS}/p", params={"gracePeriodSeconds": 0})
    assert "authenticated" not in await review(client, issued["status"]["token"])


@pytest.mark.parametrize(
    ("spec", "code", "told"),
    [
        ({"expirationSeconds": 599}, 422, "spec.expirationSeconds: Invalid value: 599: may not specify a"),
        ({"expirationSeconds": (1 << 32) + 1}, 422, "larger than 2^32 seconds"),
        ({"audiences": ["a"] * 17}, 422, "spec.audiences"),
        ({"audiences": ["a" * 257]}, 422, "spec.audiences"),
        ({"audiences": "a"}, 400, "Expected `array`"),
        ({"boundObjectRef": {"kind": "Node2", "name": "n"}}, 422, "must be a v1 Pod, Secret, Node"),
        ({"boundObjectRef": {"kind": "Pod"}}, 422, "spec.boundObjectRef.name: Required value"),
    ],
)
async def test_wrong_requests_are_refused(
    client: httpx2.AsyncClient, spec: Object, code: int, told: str
) -> None:
    answer = await client.post(f"{DEFAULT}/token", json={"spec": spec})
    assert (answer.status_code, told in answer.json()["message"]) == (code, True), answer.text


async def test_an_account_that_does_not_exist_has_no_token(client: httpx2.AsyncClient) -> None:
    answer = await client.post(f"{DEFAULT}2/token", json={})
    assert answer.status_code == 404
    assert answer.json()["message"] == 'serviceaccounts "default2" not found'
    assert (await client.get(f"{DEFAULT}/token")).status_code == 405


async def test_a_changed_token_is_nobodys(client: httpx2.AsyncClient, parts: Any) -> None:
    """Whatever is changed: the algorithm, the claims, or the signature."""
    token = (await issue(client))["status"]["token"]
    header, payload, signature = token.split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').rstrip(b"=").decode()
    for forged in (
        f"{none}.{payload}.",
        f"{none}.{payload}.{signature}",
        f"{header}.{payload}.",
        f"{header}.{payload[:-2]}AA.{signature}",
        f"{header}.{payload}.{signature[:-2]}AA",
        f"{payload}.{signature}",
        "a" * 100_000,
        "..",
        "é.é.é",
    ):
        assert parts.account_tokens.user(forged) is None


async def test_tokens_with_all_audiences_fit(client: httpx2.AsyncClient) -> None:
    audiences = [str(number) + "a" * 250 for number in range(10, 26)]
    token = (await issue(client, audiences=audiences))["status"]["token"]
    assert (await review(client, token, audiences[-1]))["audiences"] == audiences[-1:]


async def test_discovery_tells_the_kind_of_a_request(client: httpx2.AsyncClient) -> None:
    listed = {each["name"]: each for each in (await client.get("/api/v1")).json()["resources"]}
    told = listed["serviceaccounts/token"]
    assert (told["group"], told["kind"], told["verbs"]) == (
        "authentication.k8s.io",
        "TokenRequest",
        ["create"],
    )
