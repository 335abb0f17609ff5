"""The fields of an access log line: docs/access-log.md is generated from this list, and lines are tested
against it."""

from __future__ import annotations

import msgspec


class Field(msgspec.Struct, frozen=True):
    """One member of a JSON line; `text` is its place in the text format."""

    name: str
    type: str
    meaning: str
    text: str = ""


FIELDS = (
    Field("timestamp", "text", "When the request was over, RFC 3339 in UTC with milliseconds.", "first word"),
    Field(
        "client_address",
        "text",
        "Address of the client, as reported by trusted proxies; without port.",
        "second word",
    ),
    Field("method", "text or null", "Null if the bytes were not a request.", "in quotes"),
    Field("path", "text or null", "Path without the query, which may hold secrets.", "in quotes"),
    Field("protocol", "text or null", "Protocol of the client: `HTTP/1.1` or `HTTP/1.0`.", "in quotes"),
    Field(
        "status_code",
        "number",
        "Status that the client received; 499 if it left before the end.",
        "number",
    ),
    Field("outcome", "text", "`served`, `client_gone`, `client_stalled`, or an error's code.", "outcome"),
    Field("error", "object or null", "`type` (the outcome) and `message`, if the request failed.", "error"),
    Field(
        "error_origin", "text or null", "Who caused the error: `client`, `gateway` or `upstream`.", "origin"
    ),
    Field(
        "model_name",
        "text or null",
        "Model that the client requested, or the one that took over.",
        "model",
    ),
    Field(
        "model_route",
        "text or null",
        "ModelRoute, as namespace/name; other kinds as kind/namespace/name.",
        "route",
    ),
    Field("route_rule", "text or null", "Name of its rule; `rules[0]` if it has none.", "rule"),
    Field("model_server", "text or null", "ModelServer or InferencePool, in the same form.", "pool"),
    Field("backend_type", "text", "`model_server` or `inference_pool`; `unresolved` if none was found."),
    Field("backend_name", "text or null", "The same as `model_server`."),
    Field("upstream_model", "text or null", "Model name sent to the endpoint."),
    Field("stream", "true or false", "Whether the client requested a stream."),
    Field("selected_pod", "text or null", "Pod that responded, as namespace/name.", "endpoint"),
    Field("upstream_status_code", "number or null", "Status of the endpoint's response.", "upstream_status"),
    Field("upstream_attempts", "number", "Endpoints that were tried.", "attempts"),
    Field(
        "fallbacks",
        "list",
        "Models that were left for the next one: `model`, `route`, `pool`, `reason`.",
        "fallbacks",
    ),
    Field("attempts", "list", "Each of them: `endpoint`, `outcome`, `ms` (milliseconds).", "tried"),
    Field(
        "prefill",
        "object or null",
        "For pools with separate prefill and decode: `decision` (`remote`, or why not), `endpoint`, `ms`, "
        "`cached_tokens` (prompt tokens cached by the prefill endpoint).",
        "prefill",
    ),
    Field(
        "expected_prompt_tokens",
        "number or null",
        "Estimated length of the prompt when the last endpoint was picked.",
        "prompt",
    ),
    Field(
        "expected_cached_tokens",
        "number or null",
        "How many of these that endpoint was expected to have cached.",
        "cached",
    ),
    Field(
        "expected_time_to_first_token",
        "number or null",
        "Predicted milliseconds from then to the first token; null if the policy predicts none.",
        "expected",
    ),
    Field("input_tokens", "number or null", "As reported by the engine.", "tokens"),
    Field("output_tokens", "number or null", "As reported by the engine.", "tokens"),
    Field(
        "limit_input_tokens",
        "number or null",
        "Tokens counted against the input limit of the route; null if it has none.",
        "limit",
    ),
    Field("limit_output_tokens", "number or null", "The same for its output limit.", "limit"),
    Field("request_bytes", "number", "Length of the request's body.", "request_bytes"),
    Field(
        "response_bytes",
        "number",
        "Bytes of the response body, including framing and progress reports.",
        "response_bytes",
    ),
    Field(
        "duration_time_to_first_token",
        "number or null",
        "Milliseconds from the arrival of a streamed request to the first byte of its response body.",
        "ttft",
    ),
    Field("duration_total", "number", "Milliseconds from the request's arrival to its end.", "total"),
    Field(
        "duration_request_processing",
        "number",
        "Of these, until the request was sent to the endpoint that responded: connecting, earlier attempts.",
        "a of (a+b+c)",
    ),
    Field("duration_upstream_processing", "number", "Then until the response head arrived.", "b of (a+b+c)"),
    Field("duration_response_processing", "number", "Then until the end of the response.", "c of (a+b+c)"),
    Field(
        "duration_queued",
        "number",
        "Milliseconds in the queue, before it was first sent.",
        "queued",
    ),
    Field(
        "duration_start_wait",
        "number",
        "Of these, milliseconds in which the pool had no endpoint: it waited for one to start.",
        "start_wait",
    ),
    Field(
        "flow",
        "text or null",
        "Flow (tenant) of a request that was queued, or needed to be.",
        "flow",
    ),
    Field(
        "priority",
        "number or null",
        "Higher priorities are sent first; null if the bytes were not a request.",
        "priority",
    ),
    Field(
        "dropped_reason",
        "text or null",
        "Why it was dropped from the queue or not queued, as in `x-headgate-dropped-reason`.",
        "dropped",
    ),
    Field("tenant", "text or null", "Tenant of the client, if clients need credentials.", "tenant"),
    Field("request_id", "text or null", "`x-request-id`, from the client or generated by the gateway.", "id"),
    Field(
        "trace_id",
        "text or null",
        "Trace id of the request's exported spans, or of its `traceparent`.",
        "trace",
    ),
)
"""The members of a JSON line, in order. Names are stable; new ones may be added anywhere."""
