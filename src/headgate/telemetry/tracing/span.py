"""The spans of a finished request, on their way to the process that exports them."""

from __future__ import annotations

from typing import Final

import msgspec

INTERNAL: Final = 0
SERVER: Final = 1
CLIENT: Final = 2
"""Kinds of spans, as OpenTelemetry's SDK numbers them."""

Value = str | bool | int | float


class Span(msgspec.Struct, array_like=True):
    """Times are nanoseconds since 1970."""

    name: str
    span_id: int
    parent_id: int
    """0 if it has none."""
    kind: int
    start_ns: int
    end_ns: int
    attributes: dict[str, Value]
    error: str | None = None
    """What went wrong; None if nothing did."""


class FinishedTrace(msgspec.Struct, array_like=True):
    """The spans of one request, that of the request first."""

    trace_id: str
    """32 hexadecimal digits."""
    is_sampled: bool
    """Whether the endpoints were told to record their spans."""
    state: str
    """The client's `tracestate`; empty without one."""
    spans: list[Span]


class ExportSettings(msgspec.Struct):
    """What the exporting process is told at its start; it has the environment besides."""

    endpoint: str
    """URL to post spans to; empty if the environment says it."""
    service: str
    """The name of the service, unless the environment has one."""
    version: str
    instance: str
