"""Follows the Secrets with API keys, and the Tenants, of one namespace."""

from __future__ import annotations

import asyncio

from headgate import api, cluster
from headgate.dataplane.credentials import secrets
from headgate.dataplane.credentials.credentials import Credentials

PATIENCE_S = 5.0
"""How long a start waits for rights that were not there at once."""
AGAIN_S = 0.5
"""Until it is looked again whether there are rights now."""


class FollowedCredentials:
    def __init__(self, client: cluster.Source, namespace: str, credentials: Credentials) -> None:
        self._credentials = credentials
        credentials.await_tenants()
        self._secrets = cluster.Informer(client, api.Secret, namespace, label_selector=secrets.SELECTOR)
        self._tenants = cluster.Informer(client, api.Tenant, namespace, may_be_absent=True)
        self._secrets.subscribe(self._put_secret)
        self._tenants.subscribe(self._put_tenant)

    async def start(self, tasks: asyncio.TaskGroup) -> None:
        """Follow them as long as the tasks run; return once all are loaded that may be read."""
        for informer in (self._secrets, self._tenants):
            tasks.create_task(informer.run())
        await asyncio.gather(self._secrets.wait_known(PATIENCE_S), self._tenants.wait_known(PATIENCE_S))
        if self._are_tenants_known:
            self._credentials.have_tenants()
        else:
            tasks.create_task(self._wait_for_tenants())

    @property
    def _are_tenants_known(self) -> bool:
        """Not if access has been denied since the start: then there may be some."""
        return self._tenants.synced.is_set() and self._tenants.denied is None

    async def _wait_for_tenants(self) -> None:
        while not self._are_tenants_known:  # noqa: ASYNC110 - an informer has no event for rights
            await asyncio.sleep(AGAIN_S)
        self._credentials.have_tenants()

    def denied(self) -> list[cluster.Denied]:
        """The objects that may not be read."""
        found = (self._secrets.denied, self._tenants.denied)
        return [denied for denied in found if denied is not None]

    def _put_secret(self, change: cluster.Change[api.Secret]) -> None:
        secret = change.new
        if secret is not None and not secrets.is_key(secret):
            secret = None  # files of objects are not selected by a server
        name = str(change.object.metadata.key)
        self._credentials.put_key(name, None if secret is None else secrets.key_of(secret))

    def _put_tenant(self, change: cluster.Change[api.Tenant]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or old.spec != new.spec:
            self._credentials.put_tenant(change.object.metadata.name, new)
