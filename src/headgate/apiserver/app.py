"""The ASGI application: authentication, routing, and errors as Statuses."""

from __future__ import annotations

import ipaddress
import logging
import sqlite3
from collections import Counter
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.apiserver import authorization, discovery, errors, openapi, users
from headgate.apiserver.calls import CLAIM_BYTES, Call, Shared
from headgate.apiserver.connections import BoundedProtocol
from headgate.apiserver.handlers import negotiation, sending
from headgate.apiserver.handlers.documents import Documents
from headgate.apiserver.handlers.health import Health, Metrics
from headgate.apiserver.handlers.rest import warn
from headgate.apiserver.handlers.sending import compressed
from headgate.apiserver.parts import Parts
from headgate.apiserver.users import Authenticator, User

log = logging.getLogger(__name__)

KUBERNETES_VERSION = "v1.33.0+headgate"
"""The Kubernetes version that this server follows: kubectl warns if minor versions differ by more than 1."""
OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})
"""Paths that need no token from this machine; from elsewhere, everything needs one."""
MAX_PARAMETERS = 100
"""Parameters of a query; the API has about a dozen."""
_SHORT_QUERY = 512
"""Bytes of a query that are parsed without waiting for a turn."""
_STRANGERS = ""
"""Requests without a token share turns under this name; each open path is separate."""
_JSON = "application/json"


def application(parts: Parts, token: str) -> ASGIApp:
    """The ASGI application."""
    authenticator = Authenticator(token, parts.tokens, parts.account_tokens)
    views = _Views(parts)
    health = Health(parts.store, parts.hub)
    routes = [
        *(Route(f"/{name}", health.all) for name in ("healthz", "livez", "readyz")),
        *(Route(f"/{name}/{{check}}", health.one) for name in ("healthz", "livez", "readyz")),
        Route("/", views.paths),
        Route("/version", views.version),
        Route("/metrics", Metrics(parts.store, parts.shared).page),
        Route("/api", views.core),
        Route("/apis", views.groups),
        Route("/openapi/v2", views.openapi_v2),
        Route("/openapi/v3", views.openapi_index),
        Route("/openapi/v3/{path:path}", views.openapi_document),
    ]
    return _Edge(
        Starlette(routes=routes, exception_handlers={404: views.refused, 405: views.refused}),
        views,
        authenticator,
        parts.shared,
        parts.limits.stalled_s,
    )


class _Edge:
    """Authentication, authorization and error handling for every request."""

    def __init__(
        self, app: Starlette, views: _Views, authenticator: Authenticator, shared: Shared, stalled_s: float
    ) -> None:
        self._app = app
        self._views = views
        self._authenticator = authenticator
        self._shared = shared
        self._stalled_s = stalled_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        connection: BoundedProtocol | None = scope.get("connection")
        path: str = scope["path"]
        send = sending.in_time(_counting(send, self._shared.errors), connection, self._stalled_s)
        try:
            if path in OPEN_PATHS and _is_local(scope):
                if await self._has_turn(path, connection):
                    await self._app(scope, receive, send)
            elif refused := self._stranger(scope):
                if await self._has_turn(_STRANGERS, connection):
                    await refused(scope, receive, send)
            elif refused := self._crowd(scope, connection):
                await refused(scope, receive, send)
            else:
                await self._known(scope, receive, send, path)
        except (sending.StalledError, errors.StatusError) as error:
            # In the middle of a response, only closing the connection can signal an error.
            self._shared.rejected["stalled" if isinstance(error, sending.StalledError) else "broken_off"] += 1
            if connection is None:
                raise
            connection.abort()

    async def _has_turn(self, whose: str, connection: BoundedProtocol | None) -> bool:
        """Wait for the turn of a request without a token; cut it off if too many are waiting."""
        try:
            await Call(self._shared, whose).turn()
        except errors.StatusError:
            if connection is None:
                raise
            connection.abort()
            return False
        return True

    async def _known(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        """Serve a user's request on its turn, and release what it held."""
        call = scope["call"] = Call(self._shared, scope["holder"], scope.get("connection"))
        try:
            is_long = len(scope["query_string"]) > _SHORT_QUERY
            if scope["method"] == "GET" or is_long:  # others take their turn after their body has arrived
                await call.turn()
            if refused := self._refusal(scope, path):
                await refused(scope, receive, send)
            elif path.startswith(("/api/", "/apis/")):
                await self._objects(scope, receive, send, path, call)
            else:
                await self._app(scope, receive, send)
        except errors.StatusError as error:
            if scope.get("answered"):
                raise
            await status_response(error)(scope, receive, send)
        finally:
            call.close()

    async def _objects(self, scope: Scope, receive: Receive, send: Send, path: str, call: Call) -> None:
        response = await self._views.settled(await self._views.objects(Request(scope, receive), path))
        accept = negotiation.accept(Headers(scope=scope))
        response = await sending.in_yaml(response, accept, call)
        response = _held(response, call, is_read=scope["method"] == "GET")
        scope["answered"] = True
        await sending.whole(await compressed(response, scope), scope, receive, send)

    def _crowd(self, scope: Scope, connection: BoundedProtocol | None) -> Response | None:
        """The rejection for a user with too many connections; else None, and the connection is theirs."""
        holder = scope.get("holder", "")
        if not holder or connection is None or connection.admit(holder):
            return None
        told = (
            f'user "{holder}" holds {self._shared.connections.held(holder)} connections, which is as many as '
            "one may: close some, or use one for several requests"
        )
        response = status_response(errors.too_many_requests(told))
        response.headers["Connection"] = "close"
        return response

    def _stranger(self, scope: Scope) -> Response | None:
        """The rejection for a request without a valid token; else None, with the user in the scope."""
        try:
            user = self._authenticator.user(_header(scope, b"authorization"))
        except users.TokenError as error:
            log.error("%s", error)
            return status_response(errors.unavailable("the file of the tokens cannot be read"))
        if user is None:
            response = status_response(errors.unauthorized())
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        scope["user"], scope["auth"] = user, self._authenticator
        scope["holder"] = user.name  # fair sharing counts the token's user, even when impersonating
        return None

    def _refusal(self, scope: Scope, path: str) -> Response | None:
        """The rejection for a user without permission; else None, with the impersonated user in the scope."""
        if scope["query_string"].count(b"&") >= MAX_PARAMETERS:
            return status_response(errors.bad_request(f"a query may have {MAX_PARAMETERS} parameters"))
        user: User = scope["user"]
        if other := _header(scope, b"impersonate-user").decode("latin-1"):
            speaking = replace(authorization.IMPERSONATE, name=other)
            if not authorization.allows(user, speaking):
                return status_response(authorization.refusal(user, speaking))
            user = self._authenticator.named(other, Headers(scope=scope).getlist("impersonate-group"))
        if user.role != "admin":  # admins may do everything, and send most requests
            asked = authorization.attributes(scope["method"], path, Request(scope).query_params)
            if not authorization.allows(user, asked):
                return status_response(authorization.refusal(user, asked))
        scope["user"] = user
        return None


def _counting(send: Send, counted: Counter[int]) -> Send:
    """Count error responses by status, and keep caches from storing any response."""

    async def send_message(message: Message) -> None:
        if message["type"] == "http.response.start":
            if message["status"] >= HTTPStatus.BAD_REQUEST:
                counted[message["status"]] += 1
            headers = message.setdefault("headers", [])
            if all(name != b"cache-control" for name, _ in headers):
                message["headers"] = [*headers, (b"cache-control", b"no-cache, private")]
        await send(message)

    return send_message


def _held(response: Response, call: Call, *, is_read: bool) -> Response:
    """Count the response as its user's while it is sent; 429 for a read if too much of theirs is unread."""
    size = 0 if isinstance(response, StreamingResponse) else len(response.body)
    if size < CLAIM_BYTES:
        return response
    try:
        call.hold_response(size)
    except errors.StatusError as error:
        if is_read:
            return status_response(error)
    return response  # the response to a write, which is already done


def _header(scope: Scope, wanted: bytes) -> bytes:
    """The value of a header, with a lower-case name as in ASGI; empty if absent."""
    for name, value in scope["headers"]:
        if name == wanted:
            return value  # type: ignore[no-any-return]
    return b""


def _is_local(scope: Scope) -> bool:
    """Whether the request came from this machine."""
    host, _ = scope.get("client") or ("", 0)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def status_response(error: errors.StatusError) -> Response:
    response = Response(msgspec.json.encode(error.to_dict()), error.code, media_type=_JSON)
    if error.retry_after_s:
        response.headers["Retry-After"] = str(error.retry_after_s)
    return response


def _json(value: Any, media_type: str = _JSON) -> Response:
    if value is None:
        return status_response(errors.no_such_path())
    return Response(msgspec.json.encode(value), media_type=media_type)


class _Views:
    """Request handlers, in the order of the paths."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._registry = parts.registry
        self._documents = Documents(parts.registry)

    async def paths(self, request: Request) -> Response:
        """The available paths, as `kubectl get --raw /` shows them."""
        groups = [name for name in self._registry.groups() if name]
        apis = [path for group in groups for path in self._paths(group)]
        return _json(
            {"paths": sorted(["/api", "/api/v1", "/apis", "/metrics", "/openapi/v3", *OPEN_PATHS, *apis])}
        )

    def _paths(self, group: str) -> list[str]:
        return [f"/apis/{group}", *(f"/apis/{group}/{v}" for v in self._registry.groups()[group])]

    async def refused(self, request: Request, error: Exception) -> Response:
        return status_response(errors.status_of(error))

    async def version(self, request: Request) -> Response:
        major, minor = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
        unknown = dict.fromkeys(("gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler"), "")
        known = {"major": major, "minor": minor, "gitVersion": KUBERNETES_VERSION, "platform": "linux/amd64"}
        return _json(unknown | known)

    async def core(self, request: Request) -> Response:
        return self._discovery(request, core=True)

    async def groups(self, request: Request) -> Response:
        return self._discovery(request, core=False)

    def _discovery(self, request: Request, *, core: bool) -> Response:
        try:
            negotiation.check_taken(negotiation.accept(request.headers))
        except errors.StatusError as error:
            return status_response(error)
        if version := negotiation.aggregated_version(negotiation.accept(request.headers)):
            media = f"{_JSON};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
            return _json(discovery.aggregated(self._registry, version, core=core), media)
        return _json(discovery.api_versions() if core else discovery.group_list(self._registry))

    async def openapi_v2(self, request: Request) -> Response:
        if openapi.V2_ASKED in negotiation.accept(request.headers):
            return Response(openapi.v2_protobuf(), media_type=openapi.V2_ANSWERED)
        return _json(openapi.V2_DOCUMENT)

    async def openapi_index(self, request: Request) -> Response:
        return await self._documents.index(request)

    async def openapi_document(self, request: Request) -> Response:
        found = await self._documents.one(request, request.path_params["path"])
        if found is None:
            return status_response(errors.no_such_path())
        return await compressed(found, request.scope)

    async def settled(self, response: Response) -> Response:
        """Return the response once everything that it shows is on disk."""
        try:
            await self._parts.store.settled()
        except sqlite3.OperationalError as error:
            return status_response(self._status_of(error))
        return response

    def _status_of(self, error: Exception) -> errors.StatusError:
        return errors.status_of(error, takes_deletions=self._parts.store.takes_deletions)

    async def objects(self, request: Request, path: str) -> Response:
        """Handle everything below /api/ and /apis/; errors become Statuses here."""
        try:
            sending.check_yaml(request)
            if "//" in path:
                return status_response(errors.no_such_path())
            match [part for part in path.split("/") if part]:
                case ["api" | "apis" as root]:
                    return self._discovery(request, core=root == "api")
                case ["api", version]:
                    return _json(discovery.resource_list(self._registry, "", version))
                case ["apis", group]:
                    return _json(discovery.group(self._registry, group))
                case ["apis", group, version]:
                    return _json(discovery.resource_list(self._registry, group, version))
                case ["api", version, *rest]:
                    return await self._parts.rest.handle(request, "", version, rest)
                case ["apis", group, version, *rest]:
                    return await self._parts.rest.handle(request, group, version, rest)
            return status_response(errors.no_such_path())
        except Exception as error:
            status = self._status_of(error)
            if status is not error and status.code >= 500 and not errors.is_full(error):
                log.exception("%s %s", request.method, path)
            response = status_response(status)
            if status.warning:
                warn(response, status.warning)
            return response
