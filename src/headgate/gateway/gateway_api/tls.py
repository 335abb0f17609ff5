"""TLS of HTTPS listeners: the certificates of the listener whose host name the client asks for (SNI)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headgate.gateway.tls import CertificateError, Loaded, Pair, Policy, ServerNames, load

if TYPE_CHECKING:
    from headgate.routing.gateway_api import Certificate, Port

log = logging.getLogger(__name__)


class ListenerNames:
    """The certificates of one port."""

    def __init__(self, port: Port, policy: Policy) -> None:
        self.names = ServerNames(policy)
        self._rejected: set[Certificate] = set()
        self.use(port)

    def use(self, port: Port) -> None:
        """Serve the certificates of these listeners from now on."""
        by_host = {}
        for host in port.all_hosts:
            if loaded := tuple(
                made for each in host.certificates if (made := self._loaded(each)) is not None
            ):
                by_host[host.hostname] = loaded
        self.names.use(by_host)

    def _loaded(self, certificate: Certificate) -> Loaded | None:
        """None if it is not valid, or its key is another's: the others of its listener are served."""
        pair = Pair(f"Secret {certificate.secret}", certificate.chain, certificate.private_key)
        try:
            return load(pair)
        except CertificateError as error:
            if certificate not in self._rejected:
                self._rejected.add(certificate)
                log.error("a certificate of a Gateway cannot be served: %s", error)
            return None
