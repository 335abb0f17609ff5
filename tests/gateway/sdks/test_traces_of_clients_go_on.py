"""OpenAI's SDK in an application that is traced by OpenTelemetry: its span is the parent of the gateway's."""

import random
import time

import openai
from opentelemetry import propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from headgate.dataplane.tracing import Tracer
from headgate.telemetry.tracing import SERVER, Export


async def test_one_trace_from_the_application_to_the_engine(start_gateway, simulator, openai_sdk):
    """The gateway's spans are below the application's; an application that samples nothing gets none."""
    gateway = await start_gateway(simulator, settings={"tracing_sampled_from": "anyone"})
    traces = []
    export = Export(endpoint="", shown="", ratio=0.0, follows_parents=True)
    gateway.recorder.tracer = Tracer(
        gateway.shell.settings.tracing, export, random.Random(1), traces.append, time.time, kind=SERVER
    )
    provider, kept = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    client: openai.AsyncOpenAI = openai_sdk(gateway)
    messages = [{"role": "user", "content": "How deep is the canal?"}]
    with provider.get_tracer("application").start_as_current_span("question") as span:
        headers: dict[str, str] = {}
        propagate.inject(headers)
        stream = await client.chat.completions.create(
            model="m",
            messages=messages,
            stream=True,
            stream_options={"include_usage": True},
            extra_headers=headers,
        )
        usage = [event.usage async for event in stream][-1]
    (found,) = traces
    root = found.spans[0]
    context = span.get_span_context()
    assert int(found.trace_id, 16) == context.trace_id
    assert root.parent_id == context.span_id
    assert root.attributes["gen_ai.usage.output_tokens"] == usage.completion_tokens
    assert [each.name for each in found.spans] == ["chat m", "pick", "attempt", "prefill", "decode"]
    with trace.use_span(trace.NonRecordingSpan(trace.INVALID_SPAN_CONTEXT)):
        headers = {}
        propagate.inject(headers)
        assert not headers
        await client.chat.completions.create(model="m", messages=messages, extra_headers=headers)
    assert len(traces) == 1
    provider.shutdown()
