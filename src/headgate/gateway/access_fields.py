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
        "Address of the client, as trusted proxies tell it; no port.",
        "second word",
    ),
    Field("method", "text or null", "Null where the bytes were no request.", "in quotes"),
    Field("path", "text or null", "Path without the query, which may hold secrets.", "in quotes"),
    Field("protocol", "text or null", "`HTTP/1.1` or `HTTP/1.0`, as the client spoke it.", "in quotes"),
    Field(
        "status_code",
        "number",
        "Status that the client got; 499 if it left before the end.",
        "number",
    ),
    Field("outcome", "text", "`served`, `client_gone`, `client_stalled`, or an error's code.", "outcome"),
    Field(
        "error", "object or null", "`type` (the outcome) and `message`, of a request that failed.", "error"
    ),
    Field("error_origin", "text or null", "`client`, `gateway` or `upstream`: who to ask.", "origin"),
    Field("model_name", "text or null", "Model that the client asked for.", "model"),
    Field(
        "model_route",
        "text or null",
        "ModelRoute, as namespace/name; of another kind: kind/namespace/name.",
        "route",
    ),
    Field("route_rule", "text or null", "Name of its rule; `rules[0]` is one without.", "rule"),
    Field("model_server", "text or null", "ModelServer or InferencePool, in the same form.", "pool"),
    Field("backend_type", "text", "`model_server` or `inference_pool`; `unresolved` if none was found."),
    Field("backend_name", "text or null", "The same as `model_server`."),
    Field("upstream_model", "text or null", "Model that the endpoint was asked for."),
    Field("stream", "true or false", "Whether the client asked for a stream."),
    Field("selected_pod", "text or null", "Pod that answered, as namespace/name.", "endpoint"),
    Field("upstream_status_code", "number or null", "Status of the endpoint's answer.", "upstream_status"),
    Field("upstream_attempts", "number", "Endpoints that were tried.", "attempts"),
    Field("attempts", "list", "Each of them: `endpoint`, `outcome`, `ms` (milliseconds).", "tried"),
    Field(
        "prefill",
        "object or null",
        "Of a pool where prefill and decode are apart: `decision` (`remote`, or why not), `endpoint`, `ms`, "
        "`cached_tokens` (of the prompt, where it was prefilled).",
        "prefill",
    ),
    Field(
        "expected_prompt_tokens",
        "number or null",
        "Length of the prompt, as the last endpoint was picked for it: estimated.",
        "prompt",
    ),
    Field(
        "expected_cached_tokens",
        "number or null",
        "Of these, what that endpoint's cache was believed to hold.",
        "cached",
    ),
    Field(
        "expected_time_to_first_token",
        "number or null",
        "Milliseconds from then to its first token, as predicted; null where the policy predicts nothing.",
        "expected",
    ),
    Field("input_tokens", "number or null", "As the engine reports them.", "tokens"),
    Field("output_tokens", "number or null", "As the engine reports them.", "tokens"),
    Field(
        "limit_input_tokens",
        "number or null",
        "Tokens that were counted against the input limit of the route; null where it has none.",
        "limit",
    ),
    Field("limit_output_tokens", "number or null", "The same of its output.", "limit"),
    Field("request_bytes", "number", "Length of the request's body.", "request_bytes"),
    Field(
        "response_bytes",
        "number",
        "Bytes of the answer's body, framing and what the client heard while it waited included.",
        "response_bytes",
    ),
    Field(
        "duration_time_to_first_token",
        "number or null",
        "Milliseconds from the arrival of a streamed request to the first byte of its answer's body.",
        "ttft",
    ),
    Field("duration_total", "number", "Milliseconds from the request's arrival to its end.", "total"),
    Field(
        "duration_request_processing",
        "number",
        "Of these, until the request was sent to the endpoint that answered: connecting, earlier attempts.",
        "a of (a+b+c)",
    ),
    Field("duration_upstream_processing", "number", "Until the head of the answer came.", "b of (a+b+c)"),
    Field("duration_response_processing", "number", "Until the end of the answer.", "c of (a+b+c)"),
    Field(
        "duration_queued",
        "number",
        "Milliseconds that it waited for its turn, before it was sent the first time.",
        "queued",
    ),
    Field(
        "flow",
        "text or null",
        "Of a request that waited, or wanted to: whose it is, among those it competes with.",
        "flow",
    ),
    Field(
        "priority",
        "number or null",
        "The higher, the sooner it goes; null of what was no request.",
        "priority",
    ),
    Field(
        "dropped_reason",
        "text or null",
        "Why it lost its place in the queue, or had none: as `x-headgate-dropped-reason` has it.",
        "dropped",
    ),
    Field("request_id", "text or null", "`x-request-id`, of the client or made by the gateway.", "id"),
    Field("trace_id", "text or null", "Trace of the request's `traceparent`.", "trace"),
)
"""The members of a JSON line, in order. Names are stable; new ones may be added anywhere."""
