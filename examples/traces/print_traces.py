"""Receives traces by OTLP over HTTP and prints them as trees.

    python examples/traces/print_traces.py [PORT]

For a first look; a real collector such as Jaeger, Tempo or the OpenTelemetry Collector keeps them. Needs
`headgate[otel]`.
"""

# ruff: noqa: T201

import gzip
import sys
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SHOWN = ("gen_ai.usage.", "http.response.status_code", "error.type", "headgate.")


class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                show(scope.spans)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def show(spans):
    """Print the spans below those that they belong to."""
    known = {span.span_id for span in spans}
    below = defaultdict(list)
    for span in sorted(spans, key=lambda span: (span.start_time_unix_nano, span.end_time_unix_nano)):
        below[span.parent_span_id if span.parent_span_id in known else b""].append(span)
    for root in below[b""]:
        print(f"trace {root.trace_id.hex()}")
        show_below(root, below, "  ")
    sys.stdout.flush()


def show_below(span, below, indent):
    ms = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
    values = {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}
    told = " ".join(f"{key}={value}" for key, value in values.items() if key.startswith(SHOWN))
    error = " ERROR" if span.status.code == 2 else ""
    print(f"{indent}{span.name} {ms:.0f}ms{error} {told}".rstrip())
    for each in below[span.span_id]:
        show_below(each, below, indent + "  ")


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 4318
    ThreadingHTTPServer(("127.0.0.1", port), Collector).serve_forever()
