"""By which names the metrics and admin pages answer, so that no website reads them through a browser.

By DNS rebinding, a website points its own name at the address of these ports, and its visitors' browsers then
take the pages here for its own. Such requests carry the website's name in `host`.
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
"""Answered whatever the host is: kubelets and load balancers know an address only, and they tell nothing."""
_SAFE = ("GET", "HEAD")
_SHOWN_BYTES = 128


class KnownHosts:
    """An ASGI application that serves another one under the names that are the gateway's own.

    Those are the loopback names and addresses, the address that a connection came to, the host that the page
    is set to listen on, and `clients.allowed_hosts`.
    """

    def __init__(
        self,
        app: Application,
        settings: Callable[[], GatewaySettings],
        host: Callable[[GatewaySettings], str],
        rejected: Callable[[str], None],
    ) -> None:
        """`settings` are those of now; `host` is where the page listens by them; `rejected` is called for
        each request that is rejected, with the reason."""
        self._app = app
        self._settings = settings
        self._host = host
        self._rejected = rejected

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(scope)) is not None:
            reason, status, message = refusal
            self._rejected(reason)
            await _answer(send, status, message)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: dict[str, Any]) -> tuple[str, int, str] | None:
        """The reason that is counted, status and message for a request that is not answered."""
        hosts = [value.strip() for name, value in scope["headers"] if name == b"host"]
        origins = [value.strip() for name, value in scope["headers"] if name == b"origin"]
        if scope["path"] not in PROBES and (len(hosts) != 1 or not self._knows(hosts[0], scope)):
            message = (
                f"this page does not answer by the host {_shown(b', '.join(hosts))}: use localhost, the "
                "address that it listens on, or a name in the gateway's setting clients.allowed_hosts"
            )
            return "unknown_host", 421, message
        for origin in origins:
            if scope["method"] not in _SAFE and not self._knows(origin.rpartition(b"//")[2], scope):
                return "other_origin", 403, f"pages of the origin {_shown(origin)} may send nothing here"
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
