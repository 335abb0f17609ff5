"""The process that exports spans: `python -m headgate.telemetry.tracing.exporter SOCKET MEMORY SETTINGS`.

It reads traces from the socket as they come, and posts them in batches by OpenTelemetry's SDK. While the
collector does not respond, a bounded number of spans waits. It ends with the process that started it.
"""

from __future__ import annotations

import logging
import mmap
import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from headgate.telemetry.line_log import FewLines, LineFormatter
from headgate.telemetry.tracing import counts
from headgate.telemetry.tracing.span import CLIENT, INTERNAL, SERVER, ExportSettings, FinishedTrace, Span

log = logging.getLogger("headgate.telemetry.tracing")

MAX_MESSAGE_BYTES: Final = 1 << 20
END_S: Final = 5.0
"""Time for the last batches, once the other process has ended."""
KINDS: Final = {INTERNAL: SpanKind.INTERNAL, SERVER: SpanKind.SERVER, CLIENT: SpanKind.CLIENT}


class Spans:
    """Turns spans into the SDK's."""

    def __init__(self, settings: ExportSettings) -> None:
        own = {"service.version": settings.version, "service.instance.id": settings.instance}
        named = OTELResourceDetector().detect().attributes
        if SERVICE_NAME not in named:
            own[SERVICE_NAME] = settings.service
        self.resource = Resource.create({**own, **named})
        self._scope = InstrumentationScope("headgate", settings.version)

    def of(self, trace: FinishedTrace) -> Iterator[ReadableSpan]:
        trace_id = int(trace.trace_id, 16)
        # The flag of exported spans: collectors drop those that say they were not sampled.
        flags = TraceFlags(TraceFlags.SAMPLED)
        state = TraceState.from_header([trace.state]) if trace.state else TraceState()
        for place, span in enumerate(trace.spans):
            parent = None
            if span.parent_id:
                parent = SpanContext(trace_id, span.parent_id, place == 0, flags, state)
            context = SpanContext(trace_id, span.span_id, False, flags, state)
            yield self._span(span, context, parent)

    def _span(self, span: Span, context: SpanContext, parent: SpanContext | None) -> ReadableSpan:
        status = Status() if span.error is None else Status(StatusCode.ERROR, span.error or None)
        return ReadableSpan(
            span.name,
            context=context,
            parent=parent,
            resource=self.resource,
            attributes=span.attributes,
            kind=KINDS.get(span.kind, SpanKind.INTERNAL),
            status=status,
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


class Queue:
    """Spans that wait for the collector; the newest are dropped beyond a number."""

    def __init__(self, exporter: SpanExporter, memory: mmap.mmap) -> None:
        self._exporter = exporter
        self._memory = memory
        self._most = _number("OTEL_BSP_MAX_QUEUE_SIZE", 2048)
        self._batch = min(_number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512), self._most)
        self._delay_s = _number("OTEL_BSP_SCHEDULE_DELAY", 5000) / 1e3
        self._changed = threading.Condition()
        """Guards all of the following."""
        self._waiting: deque[ReadableSpan] = deque()
        self._counts = counts.read(memory)
        self._is_closing = False

    def put(self, spans: Sequence[ReadableSpan]) -> None:
        """A trace is taken or dropped as a whole."""
        with self._changed:
            if len(self._waiting) + len(spans) > self._most:
                self._count(dropped=len(spans))
                return
            self._waiting += spans
            if len(self._waiting) >= self._batch:
                self._changed.notify()

    def drop(self, spans: int) -> None:
        """Count spans that cannot be exported."""
        with self._changed:
            self._count(dropped=spans)

    def close(self) -> None:
        """Export the rest without delay."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()

    def run(self) -> None:
        """Export until closed and empty."""
        few = FewLines(log)
        errors = Errors()
        sdk = logging.getLogger("opentelemetry")
        sdk.addHandler(errors)
        sdk.propagate = False
        is_failing = False
        while batch := self._next():
            try:
                is_exported = self._exporter.export(batch) is SpanExportResult.SUCCESS
            except Exception as error:
                is_exported, errors.last = False, f"{type(error).__name__}: {error}"
            with self._changed:
                self._count(exported=len(batch) * is_exported, failed=len(batch) * (not is_exported))
            if not is_exported:
                few.warning("%d spans were not accepted by the collector: %s", len(batch), errors.last)
            elif is_failing:
                few.info("the collector accepts spans again")
            is_failing = not is_exported
            few.settle()

    def _next(self) -> list[ReadableSpan]:
        """The next batch; empty at the end."""
        until = time.monotonic() + self._delay_s
        with self._changed:
            while not self._is_closing and len(self._waiting) < self._batch:
                left_s = until - time.monotonic()
                if left_s > 0:
                    self._changed.wait(left_s)
                elif self._waiting:
                    break
                else:
                    self._changed.wait(self._delay_s)
            batch = list(islice(self._waiting, self._batch))
            for _ in batch:
                self._waiting.popleft()
        return batch

    def _count(self, exported: int = 0, failed: int = 0, dropped: int = 0) -> None:
        was = self._counts
        self._counts = counts.Counts(was.exported + exported, was.failed + failed, was.dropped + dropped)
        counts.write(self._memory, self._counts)


class Errors(logging.Handler):
    """Keeps the last line of the SDK, which logs every failure anew.

    When the SDK gives up, it does not say why: the reason is in its warning about the try before.
    """

    def __init__(self) -> None:
        super().__init__()
        self.last = "no reason given"
        self._try = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.getMessage():.400}"
        if record.levelno < logging.ERROR:
            self._try = text
        elif self._try:
            text, self._try = f"{text} Before that: {self._try}", ""
        self.last = text


def _number(name: str, default: int) -> int:
    """An environment variable; the default if it is not a number above 0."""
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and int(text[:9]) > 0 else default


def main(arguments: Sequence[str]) -> None:
    """Export until the other process is gone."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends with the other process
    sock = socket.socket(fileno=int(arguments[0]))
    memory = mmap.mmap(int(arguments[1]), counts.SIZE)
    settings = msgspec.json.decode(arguments[2], type=ExportSettings)
    queue = Queue(OTLPSpanExporter(endpoint=settings.endpoint or None), memory)
    exporting = threading.Thread(target=queue.run, name="export", daemon=True)
    exporting.start()
    spans, decode = Spans(settings), msgspec.msgpack.Decoder(FinishedTrace).decode
    few = FewLines(log)
    with sock:
        while message := sock.recv(MAX_MESSAGE_BYTES):
            trace = decode(message)
            try:
                queue.put(list(spans.of(trace)))
            except Exception as error:
                queue.drop(len(trace.spans))
                few.error("a trace is dropped: %s: %s", type(error).__name__, error)
    queue.close()
    exporting.join(END_S)
    sys.stderr.flush()
    os._exit(0)  # a request to a collector that does not respond is abandoned


if __name__ == "__main__":
    main(sys.argv[1:])
