"""In a cluster, keys are Secrets and tenants are objects, followed as they change."""

import asyncio
import base64
import json
import subprocess
import sys

import pytest

from headgate import api, cluster
from headgate.dataplane.credentials import secrets

NAMESPACE = "default"


@pytest.fixture
def headgate(kubeconfig):
    """Runs a command against the API server."""

    async def run(*arguments):
        command = [sys.executable, "-m", "headgate", *arguments, "--kubeconfig", str(kubeconfig)]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


async def test_keys_and_tenants_of_a_namespace(start_gateway, headgate, kubeconfig, eventually, tmp_path):
    """`headgate key` makes Secrets without the key, and the gateway acts on both kinds at once."""
    made = json.loads(await headgate("key", "create", "team-a", "--namespace", NAMESPACE, "-o", "json"))
    gateway = await start_gateway("--auth-namespace", NAMESPACE)

    def status(key, model=None):
        headers = {"x-api-key": key}
        if model is None:
            return gateway.http.get(f"{gateway.url}/v1/models", headers=headers).status_code
        body = {"model": model, "prompt": "a"}
        return gateway.http.post(f"{gateway.url}/v1/completions", headers=headers, json=body).status_code

    assert status(made["key"]) == 200
    assert status("hg_wrong") == 401
    async with cluster.Client.from_kubeconfig(kubeconfig) as client:
        secret = await client.get(api.Secret, secrets.name_of(made["id"]), NAMESPACE)
        assert secret.metadata.labels == {"headgate.dev/api-key": "true"}
        assert made["key"] not in str(secret.data)
        assert made["key"].encode() not in b"".join(base64.b64decode(each) for each in secret.data.values())

        # One that somebody else made, with the key itself.
        await client.create_manifest(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": "own",
                    "namespace": NAMESPACE,
                    "labels": {"headgate.dev/api-key": "true"},
                },
                "stringData": {"tenant": "team-b", "key": "a-key-from-a-vault-0123456789"},
            }
        )
        await eventually(lambda: status("a-key-from-a-vault-0123456789") == 200)

        await client.create_manifest(
            {
                "apiVersion": "headgate.dev/v1alpha1",
                "kind": "Tenant",
                "metadata": {"name": "team-a", "namespace": NAMESPACE},
                "spec": {"models": ["llama-*"]},
            }
        )
        await eventually(lambda: status(made["key"], "other") == 403)
        assert status(made["key"], "llama-8b") == 404
        assert status("a-key-from-a-vault-0123456789") == 403
        await client.delete(api.Tenant, "team-a", NAMESPACE)
        await eventually(lambda: status(made["key"], "other") == 404)

    listed = json.loads(await headgate("key", "list", "--namespace", NAMESPACE, "-o", "json"))
    assert {each["tenant"] for each in listed} == {"team-a", "team-b"}
    rotated = json.loads(
        await headgate("key", "rotate", made["id"], "--overlap", "1h", "--namespace", NAMESPACE, "-o", "json")
    )
    await eventually(lambda: status(rotated["key"]) == 200)
    assert status(made["key"]) == 200
    await headgate("key", "revoke", made["id"], "--namespace", NAMESPACE)
    await eventually(lambda: status(made["key"]) == 401)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({}, "data.tenant"),
        ({"tenant": "a"}, "data.sha256"),
        ({"tenant": "a", "key": "short"}, "data.key"),
        ({"tenant": "A b", "sha256": "0" * 64}, "data.tenant"),
        ({"tenant": "a", "sha256": "0" * 64, "expires": "soon"}, "data.expires"),
    ],
)
def test_secrets_that_hold_no_key(data, told):
    """Are told with their field, and let nobody in."""
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
    found = secrets.key_of(api.Secret(metadata=api.ObjectMeta(name="s"), data=encoded))
    assert isinstance(found, str)
    assert found.startswith(told)
