"""Errors of HTTP/2 connections and their codes (RFC 9113, section 7)."""

from __future__ import annotations

from typing import Final

NO_ERROR: Final = 0
PROTOCOL_ERROR: Final = 1
INTERNAL_ERROR: Final = 2
FLOW_CONTROL_ERROR: Final = 3
STREAM_CLOSED: Final = 5
FRAME_SIZE_ERROR: Final = 6
REFUSED_STREAM: Final = 7
CANCEL: Final = 8
COMPRESSION_ERROR: Final = 9
CONNECT_ERROR: Final = 10
"""Also of streams whose connection was lost."""
ENHANCE_YOUR_CALM: Final = 11

_NAMES: Final = {
    NO_ERROR: "NO_ERROR",
    PROTOCOL_ERROR: "PROTOCOL_ERROR",
    INTERNAL_ERROR: "INTERNAL_ERROR",
    FLOW_CONTROL_ERROR: "FLOW_CONTROL_ERROR",
    4: "SETTINGS_TIMEOUT",
    STREAM_CLOSED: "STREAM_CLOSED",
    FRAME_SIZE_ERROR: "FRAME_SIZE_ERROR",
    REFUSED_STREAM: "REFUSED_STREAM",
    CANCEL: "CANCEL",
    COMPRESSION_ERROR: "COMPRESSION_ERROR",
    CONNECT_ERROR: "CONNECT_ERROR",
    ENHANCE_YOUR_CALM: "ENHANCE_YOUR_CALM",
    12: "INADEQUATE_SECURITY",
    13: "HTTP_1_1_REQUIRED",
}


def name(code: int) -> str:
    """The name of an error code, for messages."""
    return _NAMES.get(code, f"error {code}")


class Http2Error(ConnectionError):
    """Why a connection cannot be used any more: `code` goes into GOAWAY, the message into the log."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
