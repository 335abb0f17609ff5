"""Authentication, and what lies on disk for it."""

from __future__ import annotations

import datetime
import ssl
import stat
from pathlib import Path

import httpx2
import pytest

from headgate.apiserver import Running, pki
from headgate.serving import certificates

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer wrong", "Basic c2VjcmV0", "bearer secret", "secret"]
)
async def test_without_the_token_there_is_only_401(client: httpx2.AsyncClient, header: str | None) -> None:
    """Every path but the health checks and the version needs the token, whatever its method."""
    client.headers.pop("authorization")
    headers = {} if header is None else {"authorization": header}
    for method, path in (
        ("GET", "/api"),
        ("GET", "/apis"),
        ("GET", "/openapi/v3"),
        ("GET", "/nothing"),
        ("POST", "/api/v1/namespaces"),
        ("GET", "/healthz/"),
    ):
        answer = await client.request(method, path, headers=headers)
        assert (answer.status_code, answer.json()["reason"]) == (401, "Unauthorized")
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        assert (await client.get(path, headers=headers)).status_code == 200


async def test_the_kubeconfig_is_private_and_works(server: Running) -> None:
    """Everything that has a secret in it has mode 0600, and TLS verifies against our own CA only."""
    secret = [server.kubeconfig, *server.identity.ca.parent.iterdir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}
    assert server.identity.token in server.kubeconfig.read_text()
    assert server.identity.token not in repr(server)
    async with httpx2.AsyncClient() as stranger:
        with pytest.raises(httpx2.ConnectError):
            await stranger.get(server.url)
    trusting = ssl.create_default_context(cafile=server.identity.ca)
    for host in ("127.0.0.1", "localhost"):
        async with httpx2.AsyncClient(verify=trusting) as client:
            url = server.url.replace("127.0.0.1", host)
            assert (await client.get(f"{url}/readyz")).text == "ok"


def test_the_identity_is_kept_between_starts(tmp_path: Path) -> None:
    """CA, certificate and token are those of the first start, so that a kubeconfig goes on working."""
    first = pki.ensure(tmp_path, "127.0.0.1", NOW)
    before = [path.read_bytes() for path in (first.ca, first.cert, first.key)]
    second = pki.ensure(tmp_path, "127.0.0.1", NOW + datetime.timedelta(days=300))
    assert [path.read_bytes() for path in (second.ca, second.cert, second.key)] == before
    assert first.token == second.token


@pytest.mark.parametrize("what", ["expiry", "host", "damage", "loss"])
def test_a_certificate_that_does_not_serve_is_made_anew(tmp_path: Path, what: str) -> None:
    """Before expiry, for another host, or when a file is broken or lost, there is a new certificate."""
    first = pki.ensure(tmp_path, "127.0.0.1", NOW)
    before = first.cert.read_bytes()
    host, now = "127.0.0.1", NOW
    match what:
        case "expiry":
            now += datetime.timedelta(days=certificates.VALID_DAYS - 5)
        case "host":
            host = "127.0.0.9"
        case "damage":
            first.key.write_bytes(b"nonsense")
        case "loss":
            first.ca.unlink()
    second = pki.ensure(tmp_path, host, now)
    assert second.cert.read_bytes() != before
    assert second.server_context()
