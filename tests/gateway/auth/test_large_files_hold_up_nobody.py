"""Files of keys and tenants, and key sets of issuers, are read beside the event loop."""

import asyncio
import contextlib
import json
import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from headgate.dataplane.credentials import credentials
from headgate.dataplane.credentials.key_set import KeySet
from headgate.dataplane.settings.auth import Auth

TENANTS = 1200
KEYS = 2000
MOST_S = 0.03
"""CPU time of one turn of the loop: a fraction of what reading takes."""


def tenant(number: int, share: int) -> str:
    return (
        f"---\napiVersion: headgate.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: team-{number}}}\n"
        f"spec: {{models: [llama-*], share: {share}, limits: [{{unit: day, inputTokensPerUnit: 9}}]}}\n"
    )


@pytest.fixture
def turns():
    """The CPU time of each turn of the loop's thread."""

    @contextlib.asynccontextmanager
    async def measured():
        found = []

        async def tick():
            last = time.thread_time()
            while True:
                await asyncio.sleep(0)
                now = time.thread_time()
                found.append(now - last)
                last = now
                await asyncio.sleep(0.001)

        ticking = asyncio.create_task(tick())
        yield found
        await asyncio.sleep(0.01)
        ticking.cancel()

    return measured


async def test_a_file_of_tenants(tmp_path, turns, eventually, monkeypatch):
    """Hundreds of them, all of which change."""
    monkeypatch.setattr(credentials, "POLL_S", 0.01)
    file = tmp_path / "tenants.yaml"
    file.write_text("".join(tenant(number, 1) for number in range(TENANTS)))
    owner = credentials.Credentials(Auth(tenants_file=str(file), jwt_keys=str(file)), verifies_tokens=False)
    began = time.process_time()
    running = asyncio.create_task(owner.run())
    async with turns() as found:
        file.write_text("".join(tenant(number, 2) for number in range(TENANTS)))
        await eventually(lambda: owner.tenants["team-0"].spec.share == 2)
    assert time.process_time() - began > 4 * MOST_S
    assert max(found) < MOST_S
    running.cancel()


async def test_a_key_set(tmp_path, turns):
    """As long as one may be."""
    public = jwt.algorithms.ECAlgorithm.to_jwk(
        ec.generate_private_key(ec.SECP256R1()).public_key(), as_dict=True
    )
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": [public | {"kid": str(number)} for number in range(KEYS)]}))
    key_set = KeySet(str(file), lambda: None)
    async with turns() as found:
        await asyncio.sleep(0.01)
        following = asyncio.create_task(key_set.run())
        await key_set.tried.wait()
    assert len(key_set.keys) == KEYS
    assert max(found) < MOST_S
    following.cancel()
