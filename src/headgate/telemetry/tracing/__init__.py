"""Traces of requests in OpenTelemetry's form: context, sampling, and export.

Given: the `traceparent` of a request, and the spans of requests that are over. Hands on: the `traceparent`
for endpoints, and spans to a collector, by a process of its own that imports the OpenTelemetry SDK. Nothing
else imports the SDK, which is an optional dependency (`headgate[otel]`).
"""

from headgate.telemetry.tracing.context import Trace, begin, sampled, trace_id
from headgate.telemetry.tracing.environment import Export, problems, resolve
from headgate.telemetry.tracing.sender import SpanSender
from headgate.telemetry.tracing.span import CLIENT, INTERNAL, SERVER, FinishedTrace, Span

__all__ = [
    "CLIENT",
    "INTERNAL",
    "SERVER",
    "Export",
    "FinishedTrace",
    "Span",
    "SpanSender",
    "Trace",
    "begin",
    "problems",
    "resolve",
    "sampled",
    "trace_id",
]
