"""TLS of HTTPS listeners: the certificate of the listener whose host name the client asks for (SNI)."""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
import tempfile
from typing import TYPE_CHECKING, Any, Final

from headgate.routing.gateway_api import HostTable

if TYPE_CHECKING:
    from headgate.routing.gateway_api import Certificate, Port

log = logging.getLogger(__name__)

_PROTOCOLS: Final = ["http/1.1"]


class ServerContext:
    """The context of one port. Certificates may change while it serves: connections keep theirs."""

    def __init__(self, port: Port) -> None:
        self.context = _context()
        self._loaded: dict[Certificate, ssl.SSLContext] = {}
        self._by_host: HostTable[ssl.SSLContext] = HostTable({})
        self._default: ssl.SSLContext | None = None
        self.context.sni_callback = self._choose
        self.use(port)

    def use(self, port: Port) -> None:
        """Serve the certificates of these listeners from now on."""
        wanted = dict.fromkeys(each for host in port.all_hosts for each in host.certificates)
        for certificate in wanted:
            if certificate not in self._loaded and (made := _loaded(certificate)) is not None:
                self._loaded[certificate] = made
        self._loaded = {each: context for each, context in self._loaded.items() if each in wanted}
        by_host = {}
        for host in port.all_hosts:
            # Of several certificates, the first that could be loaded: OpenSSL has one of each kind only.
            contexts = [self._loaded[each] for each in host.certificates if each in self._loaded]
            if contexts:
                by_host[host.hostname] = contexts[0]
        self._by_host = HostTable(by_host)
        self._default = next(iter(by_host.values()), None)

    def _choose(self, connection: Any, name: str | None, _: ssl.SSLContext) -> int | None:
        """The context for a handshake; a client without a name gets the first certificate."""
        found = self._by_host.find(name.lower()) if name else self._default
        if found is None:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        connection.context = found
        return None


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(_PROTOCOLS)
    return context


def _loaded(certificate: Certificate) -> ssl.SSLContext | None:
    """A context with a certificate; None if it is not valid, or its key is another's."""
    context = _context()
    # Python reads certificates from files only. This one is in memory where the system allows it.
    descriptor = _private_file()
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(certificate.chain + b"\n" + certificate.private_key)
        path = f"/dev/fd/{descriptor}"
        os.lseek(descriptor, 0, os.SEEK_SET)
        context.load_cert_chain(path)
    except (ssl.SSLError, OSError) as error:
        log.error("the certificate in Secret %s cannot be served: %s", certificate.secret, error)
        return None
    finally:
        os.close(descriptor)
    return context


def _private_file() -> int:
    """A descriptor of an anonymous file."""
    with contextlib.suppress(AttributeError, OSError):
        return os.memfd_create("certificate", os.MFD_CLOEXEC)
    file, path = tempfile.mkstemp()
    os.unlink(path)
    return file
