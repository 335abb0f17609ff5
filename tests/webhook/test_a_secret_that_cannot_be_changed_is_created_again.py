"""The webhook deletes a Secret that it can never repair, and tells why; it ends for none."""

from __future__ import annotations

import asyncio
import base64
import datetime
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headgate import api, apiserver, cluster
from headgate.serving import certificates
from headgate.webhook import rotation
from headgate.webhook.certificates import Keeper, Tls
from headgate.webhook.rotation import Terms

TERMS = Terms(names=("127.0.0.1",), overlap=datetime.timedelta(seconds=0.2))
KEY = api.ObjectKey("default", "hook")
GARBAGE = {"tls.crt": "Z2FyYmFnZQ==", "tls.key": "Z2FyYmFnZQ=="}
WAIT_S = 60.0


class Follower:
    """A process that never leads."""

    def is_held(self) -> bool:
        return False

    async def acquired(self) -> None:
        await asyncio.Event().wait()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[cluster.Client]:
    """Of an embedded API server."""
    async with (
        apiserver.running(apiserver.Config(tmp_path / "state", port=0)) as running,
        cluster.Client.from_kubeconfig(running.kubeconfig) as client,
    ):
        yield client


def keeper(client: cluster.Client, leadership: cluster.Leadership) -> tuple[Keeper, Tls]:
    tls = Tls()
    return Keeper(client, KEY, "hook", TERMS, tls, leadership=leadership), tls


async def served(client: cluster.Client) -> certificates.Issued:
    """What a leader serves in the end."""
    leader, tls = keeper(client, cluster.Undisputed())
    running = asyncio.create_task(leader.run())
    ready = asyncio.create_task(tls.ready.wait())
    await asyncio.wait((running, ready), timeout=WAIT_S, return_when=asyncio.FIRST_COMPLETED)
    try:
        assert not running.done(), running.exception()
        assert tls.served is not None
        return tls.served
    finally:
        for task in (running, ready):
            task.cancel()
        await asyncio.wait((running, ready))


async def put(client: cluster.Client, **fields: Any) -> api.Secret:
    metadata = api.ObjectMeta(name=KEY.name, namespace=KEY.namespace)
    return await client.create(api.Secret(metadata=metadata, **fields))


@pytest.mark.parametrize("kind", ["Opaque", "kubernetes.io/tls"])
async def test_it_is_deleted_and_created_again(
    client: cluster.Client, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    before = await put(client, type=kind, data=GARBAGE, immutable=True)
    issued = await served(client)
    after = await client.get(api.Secret, KEY.name, KEY.namespace)
    assert after.metadata.uid != before.metadata.uid
    assert (after.type, after.immutable) == ("Opaque", None)
    assert rotation.from_secret(after.data).coming == issued
    [told] = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert told.startswith("deleted the Secret default/hook, which cannot be repaired: PUT ")


async def test_one_that_can_be_changed_is_kept(client: cluster.Client) -> None:
    """Corrupt as it is, it is written over; a chain with a broken block ends nothing."""
    issued = certificates.issue("hook", TERMS.names, datetime.datetime.now(datetime.UTC))
    broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    corrupt = {"ca.crt": issued.ca, "tls.crt": issued.cert + broken, "tls.key": issued.key}
    data = {name: base64.b64encode(value).decode() for name, value in corrupt.items()}
    before = await put(client, type="Opaque", data=data)
    assert (await served(client)).ca != issued.ca
    assert (await client.get(api.Secret, KEY.name, KEY.namespace)).metadata.uid == before.metadata.uid


async def test_only_the_leader_deletes_it(client: cluster.Client) -> None:
    before = await put(client, type="Opaque", data=GARBAGE, immutable=True)
    follower, tls = keeper(client, Follower())
    assert await follower.step() is False
    assert tls.served is None
    assert await client.get(api.Secret, KEY.name, KEY.namespace) == before


async def test_one_that_a_finalizer_keeps_is_deleted_once(client: cluster.Client) -> None:
    """And waited for, as for any other failure."""
    metadata = api.ObjectMeta(name=KEY.name, namespace=KEY.namespace, finalizers=["example.com/keep"])
    await client.create(api.Secret(metadata=metadata, type="Opaque", data=GARBAGE, immutable=True))
    leader, _ = keeper(client, cluster.Undisputed())
    assert await leader.step() is True
    with pytest.raises(cluster.Invalid, match="immutable"):
        await leader.step()
    await client.patch(api.Secret, KEY.name, KEY.namespace, {"metadata": {"finalizers": None}})
    await served(client)


async def test_another_one_of_its_name_is_not_deleted(client: cluster.Client) -> None:
    """As when somebody was faster: then the next step sees it."""
    stale = await put(client, type="Opaque", data=GARBAGE, immutable=True)
    leader, _ = keeper(client, cluster.Undisputed())
    await client.delete(api.Secret, KEY.name, KEY.namespace)
    new = await put(client, type="Opaque", data=GARBAGE, immutable=True)
    metadata = msgspec.structs.replace(stale.metadata, resource_version=new.metadata.resource_version)
    kept = rotation.advanced(
        rotation.from_secret({}), TERMS, datetime.datetime.now(datetime.UTC), is_published=False
    )
    await leader._store(msgspec.structs.replace(stale, metadata=metadata), kept)
    assert await client.get(api.Secret, KEY.name, KEY.namespace) == new
