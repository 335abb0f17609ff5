"""Refusals for bytes that are not a valid request: message and status of each case."""

from __future__ import annotations

from typing import Final

from headgate.gateway import refusals
from headgate.requests.refusal import Refusal

_SHOWN_BYTES = 64
_PREFACE_WAS_READ: Final = "Pause on PRI/Upgrade"
"""What llhttp says after the whole preface of HTTP/2, however it was cut."""

HTTP2: Final = Refusal.bad_request(
    "HTTP/2 can begin only with its connection, and over TLS only if both sides agreed on it (ALPN)",
    code="invalid_http",
)
"""For the preface of HTTP/2, unless the connection goes on with HTTP/2."""


def unfinished() -> Refusal:
    """Nothing more is read, as the response came before the end of the request. Clients never get this."""
    return invalid("its response came before its end")


def invalid(why: object) -> Refusal:
    shown = str(why)
    if shown == _PREFACE_WAS_READ:
        return HTTP2
    return Refusal.bad_request(f"the request is not valid HTTP: {shown}", code="invalid_http")


def too_large(part: str, limit: int, status: int) -> Refusal:
    setting = "clients.max_body_bytes" if part == "body" else "clients.max_head_bytes"
    return Refusal.bad_request(
        f"the request {part} is longer than {limit} bytes: send less, or raise {setting} of the gateway",
        code=f"{part}_too_large",
        status=status,
    )


def too_much_framing(limit: int, factor: int) -> Refusal:
    return Refusal.bad_request(
        f"the chunk sizes and extensions of the request body have more than {limit} bytes and {factor} for "
        "each byte of the body: send longer chunks, or fewer extensions",
        code="framing_too_large",
    )


def too_many_headers(limit: int) -> Refusal:
    return Refusal.bad_request(
        f"the request has more than {limit} headers: send fewer, or raise clients.max_headers of the gateway",
        code="head_too_large",
        status=431,
    )


def no_tunnels() -> Refusal:
    return Refusal.method_not_allowed(
        "CONNECT is not supported; open WebSockets with GET and `Upgrade: websocket` over HTTP/1.1",
        refusals.ALLOWED,
        code="connect",
    )


def unknown_coding(value: bytes) -> Refusal:
    return Refusal.bad_request(
        f"transfer-encoding {value[:_SHOWN_BYTES].decode('latin-1')!r} is not supported: only chunked is",
        code="unknown_transfer_coding",
        status=501,
    )


def unknown_version(version: str) -> Refusal:
    return Refusal.bad_request(f"HTTP/{version} is not supported", code="unknown_version", status=505)


def unknown_expectation(value: bytes) -> Refusal:
    shown = value[:_SHOWN_BYTES].decode("latin-1")
    return Refusal.bad_request(
        f"expectation {shown!r} is not supported: only 100-continue is",
        code="unknown_expectation",
        status=417,
    )
