"""Keeps the certificates of the webhook: in a Secret, in the configuration of the webhook, and in memory.

Every process polls the Secret and serves what it says. The leader writes it, and publishes the CAs. Polling,
because a right to watch one Secret cannot be had without the right to list Secrets of other names.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import datetime
import logging
import ssl
from collections.abc import Callable
from typing import Any

import msgspec

from headgate import api, cluster
from headgate.serving import certificates
from headgate.serving.certificates import Issued
from headgate.webhook import rotation
from headgate.webhook.rotation import Kept, Terms

__all__ = ["Keeper", "Tls"]

log = logging.getLogger(__name__)

_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


class Tls:
    """A TLS context whose certificate can be replaced while it is in use."""

    def __init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.ready = asyncio.Event()
        """Set once it has a certificate."""
        self.served: Issued | None = None
        """The certificate in use."""

    def serve(self, issued: Issued) -> None:
        """Use the certificate for all handshakes from now on."""
        if issued == self.served:
            return
        certificates.load(self.context, issued)
        self.served = issued
        self.ready.set()


class Keeper:
    """Loads the certificate from the Secret, and renews it while this process leads."""

    def __init__(
        self,
        client: cluster.Client,
        secret: api.ObjectKey,
        configuration: str,
        terms: Terms,
        tls: Tls,
        *,
        leadership: cluster.Leadership,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        """`configuration` is the name of the ValidatingWebhookConfiguration."""
        self._client = client
        self._secret = secret
        self._configuration = f"{_CONFIGURATIONS}/{configuration}"
        self._terms = terms
        self._tls = tls
        self._leadership = leadership
        self._now = now
        self.poll_s = min(10.0, max(0.05, terms.overlap.total_seconds() / 4))
        """Several times within the overlap, so that no process serves a former certificate after it."""

    async def run(self) -> None:
        """Work until cancelled; a failure is logged, and tried again."""
        logged = ""
        while True:
            try:
                async with asyncio.timeout(max(self.poll_s, 5.0)):
                    again = await self.step()
                logged = ""
            except (cluster.ApiError, OSError) as error:
                again, told = False, str(error) or "timeout"
                level = logging.DEBUG if told == logged else logging.WARNING
                log.log(level, "certificates of the webhook: %s", told)
                logged = told
            if not again:
                await asyncio.sleep(self.poll_s)

    async def step(self) -> bool:
        """Load the Secret, and do the next thing that is due, if any; returns whether there may be more."""
        stored = await self._stored()
        kept = rotation.from_secret(stored.data if stored is not None else {})
        issued = rotation.served(kept, self._terms, self._now(), self._tls.served)
        if issued is not None:
            self._tls.serve(issued)
        if not self._leadership.is_held():
            return False
        is_published = await self._publish(kept)
        wanted = rotation.advanced(kept, self._terms, self._now(), is_published=is_published)
        if wanted == kept:
            return False
        await self._store(stored, wanted)
        return True

    async def _stored(self) -> api.Secret | None:
        try:
            return await self._client.get(api.Secret, self._secret.name, self._secret.namespace)
        except cluster.NotFound:
            return None

    async def _store(self, stored: api.Secret | None, kept: Kept) -> None:
        """Write the Secret. Conflict if another process was faster, which the next step will see."""
        data = rotation.to_secret(kept)
        metadata = api.ObjectMeta(name=self._secret.name, namespace=self._secret.namespace)
        new = api.Secret(metadata=metadata, type="Opaque", data=data)
        try:
            if stored is None:
                await self._client.create(new)
            else:
                await self._replace(stored, new)
        except (cluster.AlreadyExists, cluster.Conflict):
            return
        log.info("Secret %s: %s", self._secret, _told(kept))

    async def _replace(self, stored: api.Secret, new: api.Secret) -> None:
        """Write the data; into a new object if this one can never have it: it is immutable, or of a type that
        requires something else."""
        try:
            await self._client.replace(msgspec.structs.replace(stored, data=new.data))
        except cluster.Invalid as error:
            is_deleted = stored.metadata.deletion_timestamp is not None  # a finalizer keeps it
            if is_deleted or not self._leadership.is_held():
                raise
            await self._client.delete(
                api.Secret, self._secret.name, self._secret.namespace, uid=stored.metadata.uid
            )
            log.warning("deleted the Secret %s, which cannot be repaired: %s", self._secret, error)
            await self._client.create(new)

    async def _publish(self, kept: Kept) -> bool:
        """Write the CAs into the configuration, unless they are there; returns whether all were there before.

        If somebody else has overwritten them, API servers need the whole overlap again.
        """
        if kept.current is None and kept.coming is None:
            return False
        try:
            answer = await self._client.ask("GET", self._configuration)
        except cluster.NotFound:
            return False  # it may be created later
        found: dict[str, Any] = msgspec.json.decode(answer.body)
        hooks = [each for each in found.get("webhooks") or () if isinstance(each, dict)]
        is_changed = False
        for hook in hooks:
            settings = hook.setdefault("clientConfig", {})
            published = _decoded(settings.get("caBundle", ""))
            wanted = rotation.bundle(kept, published, self._now(), self._tls.served)
            if wanted != published:
                settings["caBundle"] = base64.b64encode(wanted).decode()
                is_changed = True
        if not is_changed:
            return bool(hooks)
        with contextlib.suppress(cluster.Conflict):  # the next step will see what was written
            await self._client.ask("PUT", self._configuration, found)
            log.info("published the authorities of the webhook's certificates")
        return False


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        return b""


def _told(kept: Kept) -> str:
    if kept.coming is None:
        return "the new certificate is served now"
    if kept.published_at is None:
        return "issued a new certificate"
    return "the new certificate is trusted, and will be served soon"
