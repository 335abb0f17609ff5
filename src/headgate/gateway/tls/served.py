"""The certificates of the inference API: read from files and Secrets, and replaced when these change.

An invalid certificate is reported, and the one before it is served on.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Final

from headgate import api, cluster
from headgate.gateway.settings.tls import Tls
from headgate.gateway.tls.certificates import CertificateError, Loaded, Pair, load
from headgate.gateway.tls.contexts import ServerNames
from headgate.gateway.tls.told import policy_of, read_files
from headgate.routing.gateway_api import certificates as secrets

log = logging.getLogger(__name__)

POLL_S: Final = 1.0
"""How often files are looked at. They must not change for as long before they are read: key and certificate
may be replaced one after the other."""
SECRETS_PATIENCE_S: Final = 10.0
"""How long a start waits for Secrets."""


class Served:
    """The certificates of one worker, and the context of its port."""

    def __init__(self, told: Tls) -> None:
        """Raises CertificateError if no file can be served now, and ssl.SSLError for invalid settings."""
        self._told = told
        self.names = ServerNames(policy_of(told))
        self._by_source: dict[str, Loaded] = {}
        """The last valid certificates, in the order of the settings."""
        self.faults: dict[str, str] = {}
        """Why the present state of a source is not served."""
        self.are_secrets_known = asyncio.Event()
        """Set once they were looked for."""
        self._seen = self._look()
        self.reload()
        if told.cert_files and not self._by_source:
            raise CertificateError("; ".join(self.faults.values()))

    @property
    def is_ready(self) -> bool:
        """Whether there is a certificate to serve."""
        return bool(self._by_source)

    def _serve(self) -> None:
        told = self._told
        found = [self._by_source.get(source) for source in (*told.cert_files, *told.secrets)]
        self.names.use({"": tuple(each for each in found if each is not None)})

    def _take(self, source: str, pair: Pair | str) -> None:
        """Serve a pair from now on, or keep the last one if it is invalid, or if there is none (a text)."""
        try:
            if isinstance(pair, str):
                raise CertificateError(pair)
            loaded = load(pair)
        except CertificateError as error:
            if self.faults.get(source) != str(error):
                log.error("the last valid certificate of %s stays in use: %s", source, error)
            self.faults[source] = str(error)
            return
        self.faults.pop(source, None)
        if self._by_source.get(source) != loaded:
            self._by_source[source] = loaded
            log.info("serving the certificate of %s, SHA-256 %s", source, loaded.fingerprint)
            self._serve()

    # -- files

    def _look(self) -> tuple[tuple[int, ...], ...]:
        """What changes when a file or a link to it does, as in the volume of a Secret."""
        return tuple(map(_state_of, (*self._told.cert_files, *self._told.key_files)))

    def reload(self) -> None:
        """Read all files again."""
        for cert, key in zip(self._told.cert_files, self._told.key_files, strict=True):
            try:
                pair: Pair | str = read_files(cert, key)
            except CertificateError as error:
                pair = str(error)
            self._take(cert, pair)

    async def follow_files(self) -> None:
        """Reload files when they have changed, until cancelled."""
        seen = self._seen
        while self._told.cert_files:
            await asyncio.sleep(POLL_S)
            before, seen = seen, self._look()
            if seen == before and seen != self._seen:
                self._seen = seen
                self.reload()

    # -- Secrets

    async def follow_secrets(self, client: cluster.Source) -> None:
        """Serve the certificates of Secrets, until cancelled."""
        keys = [api.ObjectKey(*name.split("/", 1)) for name in self._told.secrets]
        if not keys:
            self.are_secrets_known.set()
            return
        followed = cluster.NamedObjects(client, api.Secret, self._put_secret)
        followed.follow(keys)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(followed.run())
            await followed.wait_known(SECRETS_PATIENCE_S)
            for key in keys:
                if str(key) not in self._by_source and str(key) not in self.faults:
                    self._take(str(key), f"there is no Secret {key}, or it may not be read")
            self.are_secrets_known.set()

    def _put_secret(self, change: cluster.Change[api.Secret]) -> None:
        key = change.object.metadata.key
        try:
            found = secrets.read(key, change.new)
        except secrets.InvalidCertificateError as error:
            self._take(str(key), str(error))
        else:
            self._take(str(key), Pair(f"Secret {key}", found.chain, found.private_key))

    # -- shown

    def expiries(self) -> list[tuple[tuple[str, ...], float]]:
        """When each certificate expires, by source, in seconds since 1970."""
        return [((source,), loaded.expires_at) for source, loaded in self._by_source.items()]

    def validity(self) -> list[tuple[tuple[str, ...], float]]:
        """Whether the present content of each source is served."""
        sources = (*self._told.cert_files, *self._told.secrets)
        return [((source,), float(source not in self.faults)) for source in sources]

    def shown(self) -> list[dict[str, object]]:
        """For the debug page."""
        return [
            {
                "source": source,
                "names": list(loaded.names),
                "key": loaded.key_kind,
                "expires_at": loaded.expires_at,
                "sha256": loaded.fingerprint,
                "problem": self.faults.get(source),
            }
            for source, loaded in self._by_source.items()
        ]


def _state_of(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
