"""Checks the request that opens a WebSocket (RFC 6455, 4.2.1)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.gateway.policy import ClientPolicy
    from headgate.requests.client import Header

KEY_PROTOCOL: Final = b"openai-insecure-api-key."
"""Begins the protocol in which browsers send their key, as they can set no headers (OpenAI's convention)."""
_PROTOCOLS: Final = b"sec-websocket-protocol"
_KEY: Final = re.compile(rb"[A-Za-z0-9+/]{22}==")
_VERSION: Final = b"13"


def is_asked(method: bytes, version: str, headers: list[Header], target: bytes, policy: ClientPolicy) -> bool:
    """Whether a request that offers another protocol opens a WebSocket at a path that has them."""
    if method != b"GET" or version != "1.1":
        return False
    path = target.partition(b"?")[0].decode("latin-1")
    return _values(headers, b"upgrade") == [b"websocket"] and policy.paths.has_sessions(path)


def refusal(
    headers: list[Header], host: bytes, scheme: bytes, response_lines: bytes, early: bytes
) -> Refusal | None:
    """Why a WebSocket is not opened. `early`: what the client has sent behind its request."""
    if early or any(name in (b"content-length", b"transfer-encoding") for name, _ in headers):
        return too_early()
    if _values(headers, b"sec-websocket-version") != [_VERSION]:
        return Refusal.bad_request("sec-websocket-version must be 13", code="websocket_invalid", status=426)
    keys = [value for name, value in headers if name == b"sec-websocket-key"]
    if len(keys) != 1 or not _KEY.fullmatch(keys[0].strip()):
        return _invalid("it needs one sec-websocket-key of 16 bytes in base64")
    origins = [value for name, value in headers if name == b"origin"]
    if origins and not _is_allowed(origins, host, scheme, response_lines):
        return Refusal(
            status=403,
            type="permission_error",
            code="origin_not_allowed",
            message="pages of this origin may not open WebSockets here: add it to cors.origins",
        )
    return None


def _is_allowed(origins: list[bytes], host: bytes, scheme: bytes, response_lines: bytes) -> bool:
    """Whether a page may open a WebSocket: browsers ask for no leave before they do, unlike for requests."""
    own = b"%b://%b" % (scheme, host.lower())
    return len(origins) == 1 and (
        origins[0].lower() == own or b"access-control-allow-origin: " in response_lines
    )


def key_in_protocols(headers: list[Header]) -> bytes:
    """The key among the offered protocols, from which it is removed; empty if there is none."""
    found = b""
    for index, (name, value) in enumerate(headers):
        if name != _PROTOCOLS or KEY_PROTOCOL not in value:
            continue
        offered = [element.strip() for element in value.split(b",")]
        keys = [element for element in offered if element.startswith(KEY_PROTOCOL)]
        found = found or (keys[0][len(KEY_PROTOCOL) :] if keys else b"")
        kept = [element for element in offered if not element.startswith(KEY_PROTOCOL)]
        headers[index] = name, b", ".join(kept)
    headers[:] = [header for header in headers if header != (_PROTOCOLS, b"")]
    return found


def too_early() -> Refusal:
    """For data that the client has sent behind its request."""
    return _invalid("nothing may follow the request before its response")


def needed(path: str) -> Refusal:
    """For a request without a WebSocket at a path that is for them."""
    return Refusal(
        status=426,
        type="invalid_request_error",
        code="websocket_needed",
        message=f"{path[:256]} is for WebSockets: open one with GET and `Upgrade: websocket` over HTTP/1.1; "
        "over HTTP/2 they are not supported",
        lines=b"upgrade: websocket\r\n",
    )


def _invalid(why: str) -> Refusal:
    return Refusal.bad_request(f"the WebSocket cannot be opened: {why}", code="websocket_invalid")


def _values(headers: list[Header], wanted: bytes) -> list[bytes]:
    """The elements of a list header, in lower case."""
    lines = [value for name, value in headers if name == wanted]
    return [element.strip().lower() for line in lines for element in line.split(b",")]
