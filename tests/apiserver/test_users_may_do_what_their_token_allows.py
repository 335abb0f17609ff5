"""Named tokens, what they open, and the questions that kubectl asks about it."""

from __future__ import annotations

import datetime
import stat
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from click.testing import CliRunner

from headgate.apiserver import TokenError, Tokens
from headgate.apiserver.app import application
from headgate.apiserver.users import LOOK_AGAIN_S, Authenticator
from headgate.cli.apiserver import apiserver

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
REVIEWS = "/apis/authorization.k8s.io/v1"


@pytest.fixture
def tokens(parts: Any) -> Tokens:
    found: Tokens = parts.tokens
    return found


@pytest.fixture
def bob(tokens: Tokens) -> dict[str, str]:
    """The header of a reader."""
    return {"authorization": f"Bearer {tokens.create('bob', 'read-only', NOW)}"}


async def allowed(client: httpx2.AsyncClient, headers: dict[str, str], **attributes: str) -> bool:
    review = {"spec": {"resourceAttributes": attributes}}
    answer = await client.post(f"{REVIEWS}/selfsubjectaccessreviews", json=review, headers=headers)
    assert answer.status_code == 201
    found: bool = answer.json()["status"]["allowed"]
    return found


async def test_a_reader_reads_everything_but_secrets(
    client: httpx2.AsyncClient, bob: dict[str, str], config_maps: str, widgets: str
) -> None:
    """Lists, gets, discovery and OpenAPI are open; Secrets are not, in any form."""
    for path in (config_maps, widgets, "/api/v1/namespaces/default", "/apis", "/openapi/v3", "/version"):
        assert (await client.get(path, headers=bob)).status_code == 200
    for path in ("/api/v1/secrets", "/api/v1/namespaces/default/secrets/x", "/api/v1/secrets?watch=1"):
        assert (await client.get(path, headers=bob)).status_code == 403


async def test_an_administrator_speaks_for_others(
    client: httpx2.AsyncClient, bob: dict[str, str], config_maps: str
) -> None:
    """With the rights of the other, which are none for somebody unknown; a reader speaks for nobody."""
    for name, groups, reads, writes in (
        ("bob", [], True, False),
        ("nobody", [], False, False),
        ("nobody", ["system:masters"], True, True),
    ):
        other = [("impersonate-user", name), *(("impersonate-group", group) for group in groups)]
        read = await client.get(config_maps, headers=other)
        assert (read.status_code == 200) is reads
        body = {"metadata": {"generateName": "c-"}}
        assert ((await client.post(config_maps, headers=other, json=body)).status_code == 201) is writes
        assert (await client.get("/apis", headers=other)).status_code == 200
    refused = await client.get(config_maps, headers=bob | {"impersonate-user": "eve"})
    assert refused.status_code == 403
    assert refused.json()["message"] == (
        'users "eve" is forbidden: User "bob" cannot impersonate resource "users" in API group "" '
        "at the cluster scope"
    )


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        (
            "POST", "/api/v1/namespaces/default/configmaps",
            'configmaps is forbidden: User "bob" cannot create resource "configmaps" in API group "" '
            'in the namespace "default"',
        ),
        (
            "PATCH", "/apis/apps/v1/namespaces/default/deployments/d/scale",
            'deployments.apps "d" is forbidden: User "bob" cannot patch resource "deployments/scale" '
            'in API group "apps" in the namespace "default"',
        ),
        (
            "DELETE", "/api/v1/namespaces/default",
            'namespaces "default" is forbidden: User "bob" cannot delete resource "namespaces" '
            'in API group "" at the cluster scope',
        ),
        (
            "DELETE", "/apis/test.example/v1/namespaces/default/widgets",
            'widgets.test.example is forbidden: User "bob" cannot deletecollection resource "widgets" '
            'in API group "test.example" in the namespace "default"',
        ),
        ("POST", "/healthy", 'forbidden: User "bob" cannot post path "/healthy"'),
    ],
)  # fmt: skip
async def test_what_a_reader_may_not_do_is_told_in_kubernetes_words(
    client: httpx2.AsyncClient, bob: dict[str, str], method: str, path: str, words: str
) -> None:
    """The refusal comes before anything is read of the body or looked up."""
    answer = await client.request(method, path, headers=bob, content=b"garbage")
    assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")
    assert answer.json()["message"] == words


async def test_a_running_server_takes_a_new_token(
    client: httpx2.AsyncClient, tokens: Tokens, config_maps: str
) -> None:
    """At once, also while it knows others."""
    assert (await client.get(config_maps)).status_code == 200
    headers = {"authorization": f"Bearer {tokens.create('carol', 'admin', NOW)}"}
    made = await client.post(config_maps, json={"metadata": {"name": "c"}}, headers=headers)
    assert made.status_code == 201


def test_a_token_opens_until_it_is_revoked(tokens: Tokens) -> None:
    """A revoked token is refused within a tenth of a second, however often it is shown; others go on."""
    clock = [5.0]
    authenticator = Authenticator("admin's", tokens, now=lambda: clock[0])
    header = f"Bearer {tokens.create('carol', 'admin', NOW)}".encode()
    assert authenticator.user(header) is not None
    tokens.revoke("carol")
    for clock[0] in (5.03, 5.06, 5.09):
        authenticator.user(header)
        assert authenticator.user(b"Bearer admin's") is not None
    clock[0] = 5.0 + LOOK_AGAIN_S
    assert authenticator.user(header) is None
    assert authenticator.user(b"Bearer admin's") is not None


async def test_everybody_may_ask_about_himself(client: httpx2.AsyncClient, bob: dict[str, str]) -> None:
    """Who am I, may I, and what may I: for the administrator and for a reader."""
    review = await client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={}, headers=bob)
    assert review.json()["status"]["userInfo"]["username"] == "bob"
    admin = (await client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={})).json()
    assert "system:masters" in admin["status"]["userInfo"]["groups"]
    assert await allowed(client, bob, verb="list", resource="pods", namespace="default")
    assert not await allowed(client, bob, verb="get", resource="secrets")
    assert not await allowed(client, bob, verb="delete", resource="pods")
    assert not await allowed(client, bob, verb="*", resource="*")
    assert not await allowed(client, bob, verb="get", resource="*", group="*")
    assert await allowed(client, {}, verb="*", resource="*", group="*")
    rules = await client.post(
        f"{REVIEWS}/selfsubjectrulesreviews", json={"spec": {"namespace": "default"}}, headers=bob
    )
    resources = [name for rule in rules.json()["status"]["resourceRules"] for name in rule["resources"]]
    assert "pods/log" in resources
    assert "secrets" not in resources


async def test_a_review_that_cannot_be_understood_is_invalid(client: httpx2.AsyncClient) -> None:
    """One of resource and path must be asked for; reviews are only posted."""
    answer = await client.post(f"{REVIEWS}/selfsubjectaccessreviews", json={"spec": {}})
    assert answer.status_code == 422
    assert "exactly one of nonResourceAttributes or resourceAttributes" in answer.json()["message"]
    path = {"spec": {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}}
    asked = await client.post(f"{REVIEWS}/selfsubjectaccessreviews", json=path)
    assert asked.json()["status"]["allowed"]
    assert (await client.get(f"{REVIEWS}/selfsubjectaccessreviews")).status_code == 405


async def test_a_token_review_tells_whose_token_it_is(
    client: httpx2.AsyncClient, bob: dict[str, str]
) -> None:
    """The administrator may ask about any token, a reader about none."""
    url = "/apis/authentication.k8s.io/v1/tokenreviews"
    secret = bob["authorization"].removeprefix("Bearer ")
    status = (await client.post(url, json={"spec": {"token": secret}})).json()["status"]
    assert (status["authenticated"], status["user"]["username"]) == (True, "bob")
    other = (await client.post(url, json={"spec": {"token": "x"}})).json()["status"]
    assert "authenticated" not in other
    assert (await client.post(url, json={"spec": {"token": secret}}, headers=bob)).status_code == 403


async def test_from_elsewhere_nothing_is_served_without_a_token(parts: Any) -> None:
    """Health and version are open to this machine only."""
    for address, code in (("127.0.0.1", 200), ("::1", 200), ("192.0.2.7", 401)):
        transport = httpx2.ASGITransport(application(parts, "secret"), client=(address, 1))
        async with httpx2.AsyncClient(transport=transport, base_url="https://test") as client:
            for path in ("/healthz", "/readyz", "/livez", "/version"):
                assert (await client.get(path)).status_code == code


def test_only_hashes_are_kept(tmp_path: Path) -> None:
    """The file has mode 0600 and no token; a name is taken once; bad names and unknown ones are told."""
    tokens = Tokens(tmp_path)
    secret = tokens.create("dora", "read-only", NOW)
    path = tmp_path / "pki" / "tokens.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret not in path.read_text()
    for name in ("dora", "Dora", "", "headgate-admin", "a" * 70, "a b"):
        with pytest.raises(TokenError):
            tokens.create(name, "read-only", NOW)
    with pytest.raises(TokenError, match="there is no token 'eve'"):
        tokens.revoke("eve")


async def test_a_broken_token_file_opens_nothing(client: httpx2.AsyncClient, tmp_path: Path) -> None:
    """Nobody gets in by a file that cannot be read; the server goes on and says so."""
    (tmp_path / "state" / "pki").mkdir()
    (tmp_path / "state" / "pki" / "tokens.json").write_text("{")
    assert (await client.get("/api")).status_code == 503


def test_the_command_line_makes_lists_and_revokes_tokens(tmp_path: Path) -> None:
    """`headgate apiserver token` prints a token once, or a kubeconfig with it in it."""
    run = CliRunner().invoke
    state = ["--state", str(tmp_path)]
    refused = run(apiserver, ["token", "create", "ed", "--kubeconfig", str(tmp_path / "k"), *state])
    assert refused.exit_code == 1
    assert "start the API server once" in refused.output
    own = {"clusters": [{"name": "headgate", "cluster": {"server": "https://127.0.0.1:1"}}]}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(own))
    made = run(apiserver, ["token", "create", "ed", "--kubeconfig", str(tmp_path / "k"), *state])
    assert made.exit_code == 0
    assert yaml.safe_load((tmp_path / "k").read_text())["users"][0]["user"]["token"].startswith("hg_")
    shown = run(apiserver, ["token", "create", "fay", "--admin", *state]).output.strip()
    assert shown.startswith("hg_")
    listed = run(apiserver, ["token", "list", *state]).output.splitlines()
    assert [line.split()[:2] for line in listed[1:]] == [["ed", "read-only"], ["fay", "admin"]]
    assert run(apiserver, ["token", "revoke", "ed", *state]).exit_code == 0
    assert run(apiserver, ["token", "revoke", "ed", *state]).exit_code == 1
