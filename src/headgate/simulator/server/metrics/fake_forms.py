"""Figures of the metrics page by llm-d-inference-sim's names, and what they are here."""

from typing import Any

import msgspec

from headgate.simulator.server.metrics.fake import FakeMetrics

_PLAIN = {"running-requests": "running", "waiting-requests": "waiting", "kv-cache-usage": "kv_usage"}
_COUNTERS = {
    "total-prompt-tokens": "prompt_tokens",
    "total-generation-tokens": "generation_tokens",
    "prefix-cache-hits": "prefix_cache_hits",
    "prefix-cache-queries": "prefix_cache_queries",
}
_HISTOGRAMS = {
    "ttft-buckets-values": "time_to_first_token_seconds",
    "tpot-buckets-values": "inter_token_latency_seconds",
    "e2erl-buckets-values": "e2e_request_latency_seconds",
    "queue-time-buckets-values": "request_queue_time_seconds",
    "inf-time-buckets-values": "request_inference_time_seconds",
    "prefill-time-buckets-values": "request_prefill_time_seconds",
    "decode-time-buckets-values": "request_decode_time_seconds",
    # Choices are sequences of their own here, so the longest of a request is the only one.
    "request-max-generation-tokens": "request_generation_tokens",
    "request-prompt-tokens": "request_prompt_tokens",
    "request-generation-tokens": "request_generation_tokens",
    "request-params-max-tokens": "request_params_max_tokens",
}


class Loras(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Adapters at a time, with commas between."""

    running: str = ""
    waiting: str = ""
    timestamp: float = 0.0


def read(text: str) -> FakeMetrics:
    """Of JSON, by either names. Raises msgspec.DecodeError."""
    return msgspec.convert(merged(msgspec.json.decode(text), None), FakeMetrics)


def merged(given: Any, before: FakeMetrics | None) -> Any:
    """Figures as `FakeMetrics` has them. Those by the other names change only what they name.

    Raises msgspec.ValidationError for adapters that are none; else what is wrong is left for the caller's
    own decoding.
    """
    if not isinstance(given, dict) or not any("-" in name or name == "loras" for name in given):
        return given
    told: dict[str, Any] = msgspec.to_builtins(before or FakeMetrics())
    for name, value in given.items():
        if value is None:
            continue
        if name in _PLAIN:
            told[_PLAIN[name]] = value
        elif name in _COUNTERS:
            told["counters"][_COUNTERS[name]] = value
        elif name in _HISTOGRAMS:
            told["histograms"][_HISTOGRAMS[name]] = value
        elif name == "request-success-total" and isinstance(value, dict):
            told["counters"] |= value
        elif name == "loras":
            told |= _adapters(msgspec.convert(value, list[Loras]))
        else:
            told[name] = value
    return told


def _adapters(loras: list[Loras]) -> dict[str, Any]:
    """The newest of several, as a scraper takes it."""
    newest = max(loras, key=lambda each: each.timestamp, default=Loras())
    return {
        f"{state}_adapters": [name for name in names.split(",") if name]
        for state, names in (("running", newest.running), ("waiting", newest.waiting))
    }
