"""Checks for values that are valid on their own, but not together or in detail."""

from __future__ import annotations

import math
import re
from collections.abc import Collection

from headgate import routing
from headgate.dataplane import bodies, trust
from headgate.dataplane.settings import weight
from headgate.gateway import cors, hosts
from headgate.gateway.settings.gateway_settings import GatewaySettings
from headgate.gateway.settings.tls import Tls
from headgate.requests import paths as forwarded_paths
from headgate.standalone import urls


def conflicts(settings: GatewaySettings, unclear: Collection[str] = ()) -> list[tuple[str, str]]:
    """Values that are valid on their own, but not together or in detail: path of the setting, and why.

    `unclear`: sections that could only be read in part, so their ports may not be the intended ones.
    """
    found = _listening_problems(settings, unclear)
    clients = settings.clients
    if bodies.for_long(clients.max_bodies_bytes) < clients.max_body_bytes:
        longest, least = clients.max_body_bytes, bodies.least_limit(clients.max_body_bytes)
        why = f"{clients.max_bodies_bytes} is too small for one body of {longest} bytes"
        remedy = f"raise it to {least}, or lower clients.max_body_bytes"
        found.append(("clients.max_bodies_bytes", f"{why}: {remedy}"))
    origins = cors.problems(settings.cors.origins, credentials=settings.cors.credentials)
    found += [
        *(("engine_metrics.path", problem) for problem in _path_problems(settings.engine_metrics.path)),
        *(
            ("clients.trusted_networks", problem)
            for problem in trust.problems(settings.clients.trusted_networks)
        ),
        *(("clients.allowed_hosts", problem) for problem in hosts.problems(settings.clients.allowed_hosts)),
        *(
            ("clients.forwarded_paths", problem)
            for problem in forwarded_paths.problems(settings.clients.forwarded_paths)
        ),
        *(("cors.origins", problem) for problem in origins),
        *(
            ("rate_limits.redis_hosts", problem)
            for problem in _host_problems(settings.rate_limits.redis_hosts)
        ),
        *(
            ("kubernetes.namespaces", problem)
            for problem in _namespace_problems(settings.kubernetes.namespaces)
        ),
        *_peers_problems(settings),
        *_object_problems(settings),
        *_tls_problems(settings),
        *_certificate_problems(settings),
        *(("queue.weights", problem) for problem in _weight_problems(settings.queue.weights)),
        *(("cors.methods", problem) for problem in cors.not_names(settings.cors.methods)),
        *(("cors.headers", problem) for problem in cors.not_names(settings.cors.headers)),
    ]
    return found


def _listening_problems(settings: GatewaySettings, unclear: Collection[str]) -> list[tuple[str, str]]:
    found = []
    taken: dict[tuple[str, int], str] = {}
    for section in ("listen", "metrics", "admin"):
        page = getattr(settings, section)
        if (problem := hosts.listening_problem(page.host)) is not None:
            found.append((f"{section}.host", problem))
        if section in unclear or not page.port:
            continue
        path = f"{section}.port"
        other = taken.setdefault((page.host, page.port), path)
        if other != path:
            found.append((path, f"{page.port} is already used by {other}: choose another"))
    return found


def _peers_problems(settings: GatewaySettings) -> list[tuple[str, str]]:
    """Addresses that nobody can connect to, or that need a token; and more than one worker."""
    section = settings.peers
    if not section.addresses and not section.discovery:
        return []
    from headgate import peers  # with asyncio, which --help does without

    found = [("peers.addresses", problem) for problem in peers.address_problems(section.addresses)]
    if section.token_file is None:
        found += [
            (f"peers.{name}", f"{host} is not on this machine: set peers.token_file, or use 127.0.0.1")
            for name, host in (
                ("host", section.host),
                *(("addresses", each) for each in section.addresses if not peers.address_problems([each])),
            )
            if not peers.is_loopback(host if name == "host" else host.rpartition(":")[0].strip("[]"))
        ]
    if settings.workers.count > 1:
        found.append(
            (
                "peers.addresses" if section.addresses else "peers.discovery",
                "workers share with each other, but not with peers: set workers.count to 1, and run more "
                "gateways instead",
            )
        )
    return found


def _object_problems(settings: GatewaySettings) -> list[tuple[str, str]]:
    """Endpoints that are none, and settings that need an API server, or none."""
    section = settings.objects
    found = [("objects.endpoints", problem) for problem in urls.read(section.endpoints)[1]]
    if section.dns_servers:
        from headgate.standalone import resolving  # with asyncio, which --help does without

        found += [("objects.dns_servers", each) for each in resolving.server_problems(section.dns_servers)]
    if not section.are_given:
        return found
    given = "objects.endpoints" if section.endpoints else "objects.files"
    if settings.kubernetes.kubeconfig is not None:
        told = "objects come from an API server, or from endpoints and files: remove kubernetes.kubeconfig"
        found.append((given, f"{told}, or this setting"))
    if settings.peers.discovery:
        told = "peers find each other by an API server, of which there is none: list their peers.addresses"
        found.append(("peers.discovery", told))
    if settings.tls.secrets:
        found.append(
            ("tls.secrets", "Secrets come from an API server, of which there is none: use tls.cert_files")
        )
    return found


def _tls_problems(settings: GatewaySettings) -> list[tuple[str, str]]:
    """Files that cannot be served, and settings that need others."""
    if settings.tls == Tls():
        return []
    from headgate.gateway.tls import told  # with cryptography, which most gateways do without

    return told.problems(settings.tls)


def _certificate_problems(settings: GatewaySettings) -> list[tuple[str, str]]:
    """Certificates that count as credentials, but that no client is asked for."""
    if not settings.auth.mtls or settings.auth.mode == "off" or settings.tls.client_certificates != "off":
        return []
    why = "clients are not asked for a certificate: set tls.client_certificates to optional or required"
    return [("auth.mtls", f"{why}, and tls.client_ca_file")]


def _weight_problems(weights: tuple[str, ...]) -> list[str]:
    found = []
    known: set[str] = set()
    for text in weights:
        try:
            flow, number = weight(text)
        except ValueError:
            flow, number = "", 0.0
        if not flow or not 0 < number < math.inf:
            found.append(f"{text[:64]!r}: a flow and its weight above 0 are needed, as in team-a=2")
        elif flow in known:
            found.append(f"{text[:64]!r}: the flow {flow[:64]!r} has a weight already: remove one of the two")
        known.add(flow)
    return found


def _host_problems(names: tuple[str, ...]) -> list[str]:
    """Errors in hosts without port. The address of a Redis is compared with them as text."""
    return [
        f"{name[:64]!r}: a host without scheme, port or path is needed, such as redis.example.com or ::1"
        for name in names
        if not hosts.is_plain(name)
    ]


_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _namespace_problems(names: tuple[str, ...]) -> list[str]:
    return [
        f"{name[:64]!r} is not the name of a namespace: lower-case letters, digits and dashes are needed"
        for name in names
        if not _NAMESPACE.fullmatch(name)
    ]


def _path_problems(path: str) -> list[str]:
    if routing.is_page_path(path):
        return []
    return [f"{path[:64]!r} is not a path: a path begins with / and has no spaces"]


class InvalidSettings(Exception):  # noqa: N818 - reads as what it says
    """Settings that cannot be used; `errors` has one line for each problem."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors
