"""The few things that the gateway answers itself: health, readiness, the list of models, and OPTIONS."""

from __future__ import annotations

import urllib.parse
from bisect import bisect_left
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from headgate.gateway import refusals
from headgate.gateway.bodies import LONG_BYTES
from headgate.kubeschema import timestamps
from headgate.requests import paths
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.gateway.proxy import Proxy
    from headgate.gateway.request import Request
    from headgate.routing import Route, Snapshot

OWNER = "headgate"
_READING = (b"GET", b"HEAD")
_READY = ("/readyz", "/health")
"""Tools that know engines ask for the second, as vLLM has it."""
_MODELS = ("/v1/models", "/models")


def answer(proxy: Proxy, request: Request) -> tuple[bytes, ...]:
    """The parts of the response to a request that is not posted, and so is not for an endpoint."""
    path = request.path
    if request.method == b"OPTIONS":
        return (_options(proxy, request),)
    methods = proxy.paths.methods(path)
    if methods and (request.method not in _READING or not methods.startswith(b"GET")):
        refusal = proxy.paths.wrong_method(request.method.decode("latin-1"), path)
    elif path == "/healthz":
        return _reply(request, 200, b'{"message":"ok"}')
    elif path in _READY:
        ready = proxy.is_ready and not proxy.stopping
        message = b'{"message":"ready"}' if ready else b'{"message":"not ready"}'
        return _reply(request, 200 if ready else 503, message)
    elif path in _MODELS:
        return _reply(request, 200, proxy.models.body())
    elif path.startswith(paths.OWN_BELOW):
        # Clients escape the slashes of "organisation/model", or they do not.
        name = urllib.parse.unquote(path.partition("/models/")[2])
        entry = proxy.models.entry(name)
        if entry is not None:
            return _reply(request, 200, entry)
        refusal = Refusal.model_not_found(name)
    else:
        refusal = Refusal.bad_request(
            f"there is nothing at {path[:256]}: neither a page of the gateway, nor a path that it forwards; "
            f"only POST is forwarded, to inference paths and to those that {paths.SETTING} adds",
            code="not_found",
            status=404,
        )
    proxy.recorder.refused_here(refusal)
    whole = refusals.refused(
        refusal, request.target, keep_alive=request.keep_alive, lines=request.answer_lines
    )
    return (whole[: whole.index(b"\r\n\r\n") + 4] if request.method == b"HEAD" else whole,)


def _reply(request: Request, status: int, body: bytes) -> tuple[bytes, ...]:
    """A long body is a part of its own: all clients that have not read it yet have the same one."""
    keep_alive, lines = request.keep_alive, request.answer_lines
    head = refusals.head(status, len(body), keep_alive=keep_alive, lines=lines)
    if request.method == b"HEAD":
        return (head,)
    return (head, body) if len(body) > LONG_BYTES else (head + body,)


def _options(proxy: Proxy, request: Request) -> bytes:
    """What may be asked here; to a web page's preflight, whether the page may."""
    lines = request.answer_lines
    if proxy.policy.cors is not None and request.header(b"access-control-request-method"):
        asked = request.header(b"access-control-request-headers").encode("latin-1")
        lines = proxy.policy.cors.preflight_lines(request.header(b"origin").encode("latin-1"), asked)
    methods = refusals.ALLOWED if request.target == b"*" else proxy.paths.methods(request.path) or b"OPTIONS"
    return refusals.no_content(lines + b"allow: %b\r\n" % methods, keep_alive=request.keep_alive)


class ModelList:
    """Every name that a request may use, sorted, in OpenAI's form.

    A change of routes costs as much as the names that it is about; the list is put together when a client
    asks for it after a change.
    """

    def __init__(self) -> None:
        self._entries: dict[str, bytes] = {}
        self._names: list[str] = []
        self._body: bytes | None = None

    def change(self, names: Iterable[str], snapshot: Snapshot) -> None:
        """Takes up the names whose routes changed."""
        added: list[str] = []
        for name in names:
            route = snapshot.first(name)
            entry = _entry(name, route) if route is not None and not route.is_reserved else None
            if entry == self._entries.get(name):
                continue
            self._body = None
            if entry is None:
                del self._entries[name], self._names[bisect_left(self._names, name)]
                continue
            if name not in self._entries:
                added.append(name)
            self._entries[name] = entry
        if added:
            self._names += added
            self._names.sort()  # linear, as all but the last are sorted

    def body(self) -> bytes:
        """Of GET /v1/models; made once after a change."""
        if self._body is None:
            entries = b",".join([self._entries[name] for name in self._names])
            self._body = b'{"object":"list","data":[%b]}' % entries
        return self._body

    def entry(self, name: str) -> bytes | None:
        """Of GET /v1/models/NAME; None for a name that nobody serves."""
        return self._entries.get(name)


def _entry(name: str, route: Route) -> bytes:
    entry = {"id": name, "object": "model", "created": _epoch(route.created), "owned_by": OWNER}
    return msgspec.json.encode(entry)


def _epoch(timestamp: str) -> int:
    try:
        return int(timestamps.parse(timestamp))
    except ValueError:
        return 0
