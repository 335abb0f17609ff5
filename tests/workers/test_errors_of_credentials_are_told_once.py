"""All processes of a gateway read the files of keys and tenants, and one of them tells what is wrong."""

import asyncio
import json

from headgate.auth import keys
from headgate.dataplane.credentials.credentials import POLL_S


async def test_of_two_workers_and_their_supervisor(start_gateway, tmp_path, eventually):
    """However many have read the file."""
    _, key = keys.create("team-a", "")
    file, tenants = tmp_path / "keys.json", tmp_path / "tenants.yaml"
    file.write_text(json.dumps([{name: getattr(key, name) for name in ("id", "tenant", "sha256")}]))
    file.chmod(0o600)
    tenants.write_text("")
    gateway = await start_gateway(
        "--workers", "2", "--auth-keys-file", str(file), "--auth-tenants-file", str(tenants)
    )
    for changed, text in ((file, "["), (tenants, "kind: Tenant")):
        # An empty file, as it is while it is written in place, has another error.
        new = tmp_path / "new"
        new.write_text(text)
        new.chmod(0o600)
        new.replace(changed)
    await eventually(lambda: gateway.said().count("stays in effect") >= 2)
    await asyncio.sleep(4 * POLL_S)
    for setting in ("auth.keys_file", "auth.tenants_file"):
        assert gateway.said().count(f"{setting}: ") == 1, gateway.said()
