"""Lets browsers show the dashboard where it needs a credential, which they cannot send as a bearer token.

The credential is typed into a form once. The cookie has it encrypted with a key of this process, because
browsers send cookies to every port of a host: another server on this machine learns nothing from it. It opens
only the dashboard, for `LASTS_S`, and only as long as the credential itself opens the page.
"""

from __future__ import annotations

import secrets
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qs

from cryptography.fernet import Fernet, InvalidToken
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from headgate.dashboard.rendering import HEADERS, environment
from headgate.serving import Application, Guarded, first_credential

PATH: Final = "/dashboard"
SIGN_IN, SIGN_OUT = PATH + "/sign-in", PATH + "/sign-out"
LASTS_S: Final = 12 * 3600
MAX_FORM_BYTES: Final = 16384
MAX_COOKIE_BYTES: Final = 16384
MAX_COOKIES: Final = 4
"""Of the same name, as other servers of this host may set: those that are tried."""


class SignIn:
    """An ASGI application in front of the guarded pages, of which the dashboard is one.

    Requests with a credential of their own pass as they are.
    """

    def __init__(self, guarded: Guarded) -> None:
        self._guarded = guarded
        self._sealed = Fernet(Fernet.generate_key())
        self._form = environment().get_template("sign_in.html")

    @property
    def app(self) -> Application:
        """What is behind the guard."""
        return self._guarded.app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        if scope["type"] == "http" and path == "/" and scope["method"] in ("GET", "HEAD"):
            await self._sent_on(scope, receive, send)
        elif scope["type"] != "http" or not (path == PATH or path.startswith(PATH + "/")):
            await self._guarded(scope, receive, send)
        elif path == SIGN_IN and scope["method"] == "POST":
            await (await self._signed_in(Request(scope, receive)))(scope, receive, send)
        elif path == SIGN_OUT and scope["method"] == "POST":
            await self._signed_out(scope)(scope, receive, send)
        else:
            await self._shown(scope, receive, send)

    async def _sent_on(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Browsers go from the address that the gateway prints to the dashboard, where they have the cookie.
        To programs this path is as closed as any other."""
        own, credential = first_credential(scope["headers"])
        closed = self._guarded.closed(credential)
        if own is not None or closed is None:
            await self._guarded(scope, receive, send)
            return
        self._guarded.rejected(closed.code)
        response = self._asked(closed.status, "")
        response.headers["refresh"] = f"0; url={PATH}"
        await response(scope, receive, send)

    async def _shown(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Show the page, or ask for a credential."""
        headers = scope["headers"]
        own, _ = first_credential(headers)
        credential = b"" if own is not None else self._credential(scope)
        closed = self._guarded.closed(credential) if own is None else None
        if closed is not None:
            self._guarded.rejected(closed.code)
            asks = closed.status in (401, 403) and scope["method"] in ("GET", "HEAD")
            message = closed.message if credential else ""
            response = self._asked(closed.status, message) if asks else Response(status_code=closed.status)
            await response(scope, receive, send)
            return
        kept = [each for each in headers if each[0] != b"cookie"]  # no page needs it
        if credential:
            kept.append((b"authorization", b"Bearer " + credential))
        await self._guarded(scope | {"headers": kept, "signed_in": bool(credential)}, receive, send)

    def _asked(self, status: int, message: str) -> Response:
        nonce = secrets.token_urlsafe(16)
        policy = (
            f"default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; base-uri 'none'; "
            "frame-ancestors 'none'"
        )
        text = self._form.render(nonce=nonce, message=message, action=SIGN_IN)
        return HTMLResponse(
            text, status, {**HEADERS, "content-security-policy": policy, "cache-control": "no-store"}
        )

    async def _signed_in(self, request: Request) -> Response:
        """Give a cookie for the credential in a form, if it opens the pages."""
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_FORM_BYTES:
                return self._asked(401, "The form is too long.")
        fields = parse_qs(body.decode("latin-1"), max_num_fields=8) if body.count(b"&") < 8 else {}
        credential = fields.get("token", [""])[0].strip().encode("utf-8", "replace")
        closed = self._guarded.closed(credential)
        if closed is not None:
            self._guarded.rejected(closed.code)
            return self._asked(closed.status, closed.message)
        response = RedirectResponse(PATH, 303, {**HEADERS, "cache-control": "no-store"})
        if credential:
            response.set_cookie(
                _name(request.scope),
                self._sealed.encrypt(credential).decode(),
                path=PATH,
                httponly=True,
                samesite="strict",
                secure=request.url.scheme == "https",
            )
        return response

    def _signed_out(self, scope: dict[str, Any]) -> Response:
        closed = self._guarded.closed(self._credential(scope))
        if closed is not None:
            return self._asked(closed.status, "")
        response = RedirectResponse(PATH, 303, {**HEADERS, "cache-control": "no-store"})
        response.delete_cookie(_name(scope), path=PATH, httponly=True, samesite="strict")
        return response

    def _credential(self, scope: dict[str, Any]) -> bytes:
        """The credential of the cookie; empty without one that is of this process and recent."""
        raw = b"; ".join(value for name, value in scope["headers"] if name == b"cookie")
        if len(raw) > MAX_COOKIE_BYTES:
            return b""
        # Not by SimpleCookie: before Python 3.11.10, 16 KB of backslashes take it a second.
        wanted = _name(scope).encode()
        pairs = [pair.partition(b"=") for pair in raw.split(b";")]
        found = [value.strip(b' "') for name, _, value in pairs if name.strip() == wanted]
        for each in found[:MAX_COOKIES]:
            with suppress(InvalidToken):
                return self._sealed.decrypt(each, LASTS_S)
        return b""


def _name(scope: MutableMapping[str, Any]) -> str:
    """Of the cookie: gateways on other ports of this host have cookies of their own."""
    server = scope.get("server")
    return f"headgate_dashboard_{server[1] if server else 0}"
