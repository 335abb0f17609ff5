"""Traces of requests: which of them are kept, and their spans.

Given: a request before it is sent, and again when it is settled. Hands on: the trace that endpoints belong
to, and spans, which are built from the times that the request's life has recorded anyway.
"""

from headgate.dataplane.tracing.starting import RunningTracer, add_metrics, start
from headgate.dataplane.tracing.tracer import Tracer

__all__ = ["RunningTracer", "Tracer", "add_metrics", "start"]
