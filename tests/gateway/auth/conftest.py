"""A gateway whose clients need keys from a file."""

import json
import os

import pytest
import yaml

from headgate.auth import keys

CREATED = "2026-01-01T00:00:00Z"


class Keys:
    """A file of keys, and what was shown of them."""

    def __init__(self, path):
        self.path = path
        self.stored = []
        self.write()

    def make(self, tenant="team-a", **more):
        shown, key = keys.create(tenant, CREATED, **more)
        self.stored.append(key)
        self.write()
        return shown

    def revoke(self, shown):
        self.stored = [key for key in self.stored if key.id != shown.split("_")[1]]
        self.write()

    def write(self):
        new = self.path.with_suffix(".new")
        fields = ("id", "tenant", "sha256", "created", "expires", "admin")
        new.write_text(json.dumps([{name: getattr(key, name) for name in fields} for key in self.stored]))
        new.chmod(0o600)
        os.replace(new, self.path)


@pytest.fixture
def keys_file(tmp_path):
    return Keys(tmp_path / "keys.json")


@pytest.fixture
def tenants_file(tmp_path):
    """Writes Tenants, each as its name and spec."""
    path = tmp_path / "tenants.yaml"

    def write(**specs):
        documents = [
            {
                "apiVersion": "headgate.dev/v1alpha1",
                "kind": "Tenant",
                "metadata": {"name": name.replace("_", "-")},
                "spec": spec,
            }
            for name, spec in specs.items()
        ]
        new = path.with_suffix(".new")
        new.write_text(yaml.safe_dump_all(documents))
        os.replace(new, path)
        return path

    write()
    return write


@pytest.fixture
def start_guarded(start_gateway, start_endpoint, keys_file):
    """Starts a gateway that routes the model m, to clients with a key."""

    async def start(settings=None, answer=b'{"ok": true}', **pool):
        endpoint = await start_endpoint(answer)
        chosen = {"auth_keys_file": str(keys_file.path)} | (settings or {})
        gateway = await start_gateway(endpoint, settings=chosen, **pool)
        gateway.endpoint = endpoint
        return gateway

    return start
