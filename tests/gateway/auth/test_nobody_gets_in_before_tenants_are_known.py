"""Without a Tenant, clients may do everything, so the gateway first has to know that there is none."""

import asyncio

import pytest

from headgate import cluster
from headgate.auth.gate import Gate
from headgate.auth.outcome import TENANTS_UNKNOWN, Identity
from headgate.cluster.errors import Forbidden
from headgate.dataplane.credentials.credentials import Credentials
from headgate.dataplane.credentials.followed import FollowedCredentials
from headgate.dataplane.settings.auth import Auth
from headgate.standalone.stored import stored

SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "own", "namespace": "keys", "labels": {"headgate.dev/api-key": "true"}},
    "stringData": {"tenant": "team-a", "key": "a-key-from-a-vault"},
}
TENANT = {
    "apiVersion": "headgate.dev/v1alpha1",
    "kind": "Tenant",
    "metadata": {"name": "team-a", "namespace": "keys"},
    "spec": {"models": ["m"]},
}
KEY = b"a-key-from-a-vault"


async def test_a_file_that_was_never_read_lets_nobody_in(start_guarded, tenants_file, keys_file):
    """As when a worker takes the place of another one after a bad edit. Admins still see why."""
    key, admin = keys_file.make(), keys_file.make("ops", admin=True)
    path = tenants_file(team_a={"models": ["other"]})
    good = path.read_text()
    path.write_text(good.replace("models", "model"))
    gateway = await start_guarded({"auth_tenants_file": str(path)})
    credentials = gateway.shell.services.credentials
    refused = await gateway.ask(x_api_key=key)
    assert (refused.status, refused.json["error"]["code"]) == (503, "tenants_unavailable")
    assert refused.header("retry-after") == "1"
    assert credentials.opens_pages(admin.encode()) is None
    assert "spec.model" in credentials.troubles["auth.tenants_file"]
    path.write_text(good)
    credentials.look()
    assert (await gateway.ask(x_api_key=key)).status == 403
    path.write_text("a: [")
    credentials.look()
    assert (await gateway.ask(x_api_key=key)).status == 403
    assert not gateway.endpoint.calls


class Guarded(cluster.LocalObjects):
    """Objects of which Tenants may not be read."""

    is_denied = True

    async def pages(self, path, query, size=cluster.client.PAGE_SIZE):
        if self.is_denied and "/tenants" in path:
            raise Forbidden("no right to list tenants", status_code=403, reason="Forbidden")
        async for page in super().pages(path, query, size):
            yield page


@pytest.fixture
def credentials():
    return Credentials(Auth(namespace="keys"))


def found(credentials):
    assert isinstance(credentials.gate, Gate)
    return credentials.gate.identify(KEY, 0.0)


@pytest.fixture
async def follow(credentials):
    """Follows the objects of a source from its start on."""

    async def run(source, started):
        async with asyncio.TaskGroup() as tasks:
            await FollowedCredentials(source, "keys", credentials).start(tasks)
            started.set()

    async def follow(source):
        started = asyncio.Event()
        running.append(asyncio.create_task(run(source, started)))
        async with asyncio.timeout(5):
            await started.wait()

    running = []
    yield follow
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def test_without_the_right_to_read_tenants(credentials, follow, eventually):
    """Keys alone say nothing about what they are for. Once there is the right, they count."""
    source = Guarded()
    source.replace(map(stored, (SECRET, TENANT)))
    await follow(source)
    await eventually(lambda: found(credentials) is TENANTS_UNKNOWN)
    assert credentials.troubles == {"Tenants": "not read yet"}
    source.is_denied = False
    await eventually(lambda: isinstance(found(credentials), Identity))
    assert not found(credentials).grant.may_use("other")
    assert credentials.troubles == {}


async def test_no_tenants_are_known_too(credentials, follow, eventually):
    """Then every client may do everything."""
    source = cluster.LocalObjects()
    source.replace([stored(SECRET)])
    await follow(source)
    await eventually(lambda: isinstance(found(credentials), Identity))
    assert found(credentials).grant.may_use("anything")
