"""`headgate up` takes keys and tenants as `headgate gateway` does, and what it starts has credentials."""

import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

pytestmark = pytest.mark.whole

TENANT = """apiVersion: headgate.dev/v1alpha1
kind: Tenant
metadata: {name: team-a}
spec: {models: [sim-8b]}
"""


def headgate(*words: str) -> str:
    """What a command prints, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "headgate", *words], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_clients_need_their_key(new_machine, tmp_path: Path) -> None:
    """It becomes ready, its controllers read the signals of the gateway, and pages need the token."""
    key = headgate("key", "create", "team-a", "--file", str(tmp_path / "keys.json")).strip()
    (tmp_path / "tenants.yaml").write_text(TENANT)
    machine = new_machine()
    machine.start(
        flags=(
            *("--auth-keys-file", str(tmp_path / "keys.json")),
            *("--auth-tenants-file", str(tmp_path / "tenants.yaml")),
        )
    )
    token_file = machine.state / "admin-token"
    assert "-H 'authorization: Bearer KEY'" in machine.output
    assert f"/dashboard with the token in {token_file}" in machine.output
    assert machine.get("/v1/models").status_code == 401
    with httpx2.Client(trust_env=False, headers={"authorization": f"Bearer {key}"}) as client:
        asked = client.post(
            f"{machine.url}/v1/chat/completions",
            json={"model": "sim-8b", "max_tokens": 2, "messages": [{"role": "user", "content": "Hello"}]},
            timeout=60.0,
        )
    assert asked.status_code == 200
    assert token_file.stat().st_mode & 0o777 == 0o600
    for port, path in (("admin-port", "/debug/config"), ("metrics-port", "/metrics")):
        url = f"http://127.0.0.1:{machine.ports[port]}{path}"
        assert httpx2.get(url).status_code == 401
        token = token_file.read_text().strip()
        assert httpx2.get(url, headers={"x-api-key": token}).status_code == 200
    page = httpx2.get(url, headers={"x-api-key": token}).text
    rejected = [line for line in page.splitlines() if 'page="metrics",reason="missing_credentials"' in line]
    assert rejected == [rejected[0].rpartition(" ")[0] + " 1.0"], (
        "only that of this test: controllers have it"
    )
