"""Creates HTTP clients from a kubeconfig or in-cluster account: lightkube authenticates, this module sets the
limits."""

import ipaddress
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
from lightkube.config.client_adapter import user_auth, verify_cluster
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from headgate import http_clients
from headgate.cluster import kubeconfig
from headgate.cluster.errors import ConfigurationError
from headgate.cluster.http1 import Http1Transport

REQUEST_TIMEOUT = httpx2.Timeout(30, connect=5, pool=10)
# Shorter than uvicorn's keep-alive of 5 s: the side that sends next must be the one that closes, or they
# race.
_REQUESTS_KEPT_S = 4.0
_MOST_REQUESTS = 32
# A stream that ended is not kept: its server is most likely shutting down, and would wait for this side to
# close.
_STREAMS_KEPT_S = 0.0
_MOST_STREAMS = 256
# A peer that vanished without a reset is noticed after 15 + 3 * 5 s, not after the watch's ten minutes.
_KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
        if hasattr(socket, name)
    ),
]


@dataclass(frozen=True)
class Connection:
    """Two pools to one server, so that open watches never keep a request waiting for a connection."""

    server: str
    source: str
    """The source of the address: the kubeconfig, or the in-cluster account; "" for a URL."""
    namespace: str
    requests: httpx2.AsyncClient
    streams: httpx2.AsyncClient

    async def aclose(self) -> None:
        await self.requests.aclose()
        await self.streams.aclose()


def from_kubeconfig(files: Path | Sequence[Path] | None = None, context: str | None = None) -> Connection:
    """Connect with the files, the first of which takes precedence; without any: the in-cluster account, then
    $KUBECONFIG, then ~/.kube/config."""
    listed = [] if files is None else [files] if isinstance(files, Path) else files
    try:
        return _connection(kubeconfig.chosen(listed, context), kubeconfig.source(listed))
    except ConfigError as error:
        raise ConfigurationError(f"no cluster connection: {error}") from error
    except (KeyError, TypeError, ValueError, OSError) as error:
        where = " and ".join(str(file) for file in listed) or "the in-cluster account or the kubeconfig"
        raise ConfigurationError(f"no cluster connection: {where} is not usable: {error!r}") from error


def from_url(url: str) -> Connection:
    """Connect to a server that requires no credentials."""
    config = KubeConfig.from_server(url).get()
    assert config
    return _connection(config, "")


def _connection(config: SingleConfig, source: str) -> Connection:
    user = config.user or User()
    if user.exec and user.exec.apiVersion == "client.authentication.k8s.io/v1":
        # lightkube only knows the beta versions; for tokens, v1 has the same format.
        user.exec.apiVersion = "client.authentication.k8s.io/v1beta1"
    server = config.cluster.server
    tls = http_clients.verifying(verify_cluster(config.cluster, user, config.abs_file))
    auth = user_auth(user)
    return Connection(
        server=server,
        source=source,
        namespace=config.namespace,
        requests=_http(server, tls, auth, _MOST_REQUESTS, _REQUESTS_KEPT_S),
        streams=_http(server, tls, auth, _MOST_STREAMS, _STREAMS_KEPT_S),
    )


def _http(
    server: str, tls: ssl.SSLContext, auth: httpx2.Auth | None, most: int, kept_s: float
) -> httpx2.AsyncClient:
    # identity: API servers are near, and decompressing a list costs more time than its transfer.
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "headgate"}
    options: dict[str, Any] = {"auth": auth} if auth else {}
    return httpx2.AsyncClient(
        base_url=server,
        transport=_transport(server, tls, most, kept_s),
        headers=headers,
        timeout=REQUEST_TIMEOUT,
        **options,
    )


def _transport(server: str, tls: ssl.SSLContext, most: int, kept_s: float) -> httpx2.AsyncBaseTransport:
    proxy = _proxy_for(server)
    if proxy is None:
        return Http1Transport(tls, most=most, keepalive_s=kept_s, socket_options=_KEEPALIVE)
    limits = httpx2.Limits(
        max_connections=most, max_keepalive_connections=most if kept_s else 0, keepalive_expiry=kept_s
    )
    return http_clients.transport(verify=tls, limits=limits, proxy=proxy, socket_options=_KEEPALIVE)


def _proxy_for(server: str) -> str | None:
    """The environment's proxy, as kubectl would use it: never for this machine."""
    url = urlsplit(server)
    host = url.hostname or ""
    if _is_loopback(host) or proxy_bypass(host):
        return None
    return getproxies().get(url.scheme)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
