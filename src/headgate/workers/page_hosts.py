"""The host names under which the metrics and admin pages respond, so that no website reads them through a
browser.

With DNS rebinding, a website points its own name to the address of these ports, and browsers of its visitors
treat the pages as the website's own. Such requests have the website's name in `host`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from headgate.gateway.hosts import Hosts, named

if TYPE_CHECKING:
    from headgate.gateway.settings import GatewaySettings
    from headgate.serving import Application

PROBES = ("/healthz", "/readyz")
"""Served for any host: kubelets and load balancers know only an address, and these paths reveal nothing."""
_SAFE = ("GET", "HEAD")
_SHOWN_BYTES = 128


class KnownHosts:
    """An ASGI application that serves another one under the gateway's own host names.

    These are the loopback names and addresses, the local address of the connection, the host on which the
    page is configured to listen, and `clients.allowed_hosts`.
    """

    def __init__(
        self,
        app: Application,
        settings: Callable[[], GatewaySettings],
        host: Callable[[GatewaySettings], str],
        rejected: Callable[[str], None],
    ) -> None:
        """`settings` returns the current settings; `host` returns the page's listen address from them;
        `rejected` is called for each rejected request, with the reason."""
        self.app = app
        self._settings = settings
        self._host = host
        self._rejected = rejected

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(scope)) is not None:
            reason, status, message = refusal
            self._rejected(reason)
            await _answer(send, status, message)
        else:
            await self.app(scope, receive, send)

    def _refusal(self, scope: dict[str, Any]) -> tuple[str, int, str] | None:
        """Reason for the metric, status and message, if the request is rejected."""
        hosts = [value.strip() for name, value in scope["headers"] if name == b"host"]
        origins = [value.strip() for name, value in scope["headers"] if name == b"origin"]
        if scope["path"] not in PROBES and (len(hosts) != 1 or not self._knows(hosts[0], scope)):
            message = (
                f"this page is not served under the host {_shown(b', '.join(hosts))}: use localhost, the "
                "address that it listens on, or a name in the gateway's setting clients.allowed_hosts"
            )
            return "unknown_host", 421, message
        for origin in origins:
            if scope["method"] not in _SAFE and not self._knows(origin.rpartition(b"//")[2], scope):
                return "other_origin", 403, f"pages of the origin {_shown(origin)} may not send requests here"
        return None

    def _knows(self, host: bytes, scope: dict[str, Any]) -> bool:
        settings = self._settings()
        name = named(host)
        if name is None:
            return False
        if name in (b"localhost", self._host(settings).lower().encode()) or name.endswith(b".localhost"):
            return True
        allowed = settings.clients.allowed_hosts
        if allowed and Hosts(allowed).refusal(host) is None:
            return True
        address = _address(name.decode().strip("[]"))
        if address is None:
            return False
        server = scope.get("server")
        return address.is_loopback or (server is not None and address == _address(str(server[0])))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None) or found


def _shown(text: bytes) -> str:
    return repr(text[:_SHOWN_BYTES].decode("latin-1"))


async def _answer(send: Any, status: int, message: str) -> None:
    body = msgspec.json.encode({"message": message})
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
