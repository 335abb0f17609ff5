"""Options for the engine's constants, its latencies and its cache events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headgate.cli.options import together
from headgate.cli.simulate import sizes
from headgate.cli.simulate.engine.options import COUNT, RATE, SECONDS, seconds

if TYPE_CHECKING:
    from headgate.simulator.server import KvEventsConfig

ENGINE = together(
    click.option("--base-s", type=SECONDS, help="Seconds that every step takes, besides the costs below."),
    click.option(
        "--per-decode-sequence-s", type=SECONDS, help="Seconds per sequence that decodes in a step."
    ),
    click.option("--per-kv-token-s", type=SECONDS, help="Seconds per token of context that they read."),
    click.option("--per-prefill-token-s", type=SECONDS, help="Seconds per prompt token prefilled in a step."),
    click.option(
        "--prefill-base-s", type=SECONDS, help="Used instead of --base-s in a step that prefills, if larger."
    ),
    click.option("--least-prefill-s", type=SECONDS, help="Minimum seconds of a step that prefills."),
    click.option("--per-start-s", type=SECONDS, help="Seconds per request that starts in a step."),
    click.option("--max-num-seqs", type=COUNT, help="Maximum number of running sequences."),
    click.option("--max-model-len", type=COUNT, help="Maximum tokens of prompt and output together."),
    click.option("--prefill-budget-tokens", type=COUNT, help="Maximum prompt tokens prefilled in one step."),
    click.option("--kv-blocks", "--kv-cache-size", "kv_blocks", type=COUNT, help="Blocks of the KV cache."),
    click.option("--block-size", type=COUNT, help="Tokens per KV block."),
    click.option(
        "--host-kv-blocks",
        type=click.IntRange(min=0),
        help="Blocks of a second cache in host memory, for blocks evicted from the first.",
    ),
    click.option("--host-token-s", type=SECONDS, help="Seconds per cached token loaded from there."),
    click.option(
        "--disk-kv-blocks",
        type=click.IntRange(min=0),
        help="Blocks of a third cache on disk, for blocks evicted from host memory.",
    ),
    click.option(
        "--disk-latency-s",
        type=SECONDS,
        help="Latency in seconds of loads from there.",
    ),
    click.option("--disk-bytes-per-s", type=RATE, help="Bandwidth of loads from there."),
    click.option(
        "--remote-kv-blocks",
        type=click.IntRange(min=0),
        help="Blocks of a store shared by the engines of this process: each stores what it computes.",
    ),
    click.option(
        "--remote-latency-s",
        type=SECONDS,
        help="Latency in seconds of loads from there.",
    ),
    click.option("--remote-bytes-per-s", type=RATE, help="Bandwidth of loads from there."),
    click.option("--kv-bytes-per-token", type=COUNT, help="Bytes of KV cache per token."),
    *(
        click.option(
            f"--{name.replace('_', '-')}",
            type=RATE,
            help=f"Size in bytes, instead of --{blocks.replace('_', '-')}.",
        )
        for name, blocks in sizes.IN_BLOCKS.items()
    ),
    click.option(
        "--max-waiting",
        "--max-waiting-queue-length",
        "max_waiting",
        type=click.IntRange(min=0),
        help="Requests queued beyond --max-num-seqs; more get a 429.",
    ),
    click.option(
        "--enable-prefix-caching/--no-enable-prefix-caching",
        "prefix_cache",
        default=None,
        help="Compute shared prompt prefixes only once (the default).",
    ),
    click.option(
        "--max-loras", "max_adapters", type=click.IntRange(min=0), help="Adapters loaded at the same time."
    ),
    click.option(
        "--max-cpu-loras",
        "max_host_adapters",
        type=COUNT,
        help="Adapters kept in host memory, at least --max-loras.",
    ),
    click.option("--adapter-host-load-s", type=SECONDS, help="Seconds to load an adapter from host memory."),
    click.option("--adapter-load-s", type=SECONDS, help="Seconds to load an adapter."),
    click.option(
        "--adapter-kv-blocks",
        type=click.IntRange(min=0),
        help="KV blocks whose memory a loaded adapter takes.",
    ),
    click.option(
        "--scheduling-policy",
        type=click.Choice(["fcfs", "priority"]),
        default="fcfs",
        help="Order in which requests start: first come, first served, or by their `priority`.",
    ),
)

JITTER = click.option(
    "--step-jitter",
    type=click.FloatRange(0, 1),
    help="Standard deviation of the step time, as a fraction of it.",
)
SPECULATION = together(
    click.option(
        "--draft-tokens",
        type=click.IntRange(min=0),
        help="Tokens drafted per sequence in a step (speculative decoding).",
    ),
    click.option(
        "--draft-acceptance",
        type=click.FloatRange(0, 1),
        help="Probability that a drafted token is accepted if those before it were.",
    ),
    click.option(
        "--draft-token-s",
        type=SECONDS,
        help="Seconds per token drafted ahead in a step, for all sequences together.",
    ),
)

# Latencies as in llm-d-inference-sim, for a lone request and under load, instead of step costs.
_TIMES = {
    "time-to-first-token": "Time to the first token, whatever the prompt.",
    "time-to-first-token-std-dev": "Its standard deviation.",
    "prefill-overhead": "Time to the first token, in addition to --prefill-time-per-token.",
    "prefill-time-per-token": "For each prompt token that is not cached.",
    "prefill-time-std-dev": "Deviation of --prefill-overhead.",
    "inter-token-latency": "Time between two tokens of a lone request.",
    "inter-token-latency-std-dev": "Its standard deviation.",
    "kv-cache-transfer-latency": "Time to transfer a prompt from another engine.",
    "kv-cache-transfer-latency-std-dev": "Its standard deviation.",
    "kv-cache-transfer-time-per-token": "The same for each of its tokens.",
    "kv-cache-transfer-time-std-dev": "Standard deviation of the resulting time for a whole prompt.",
}
LATENCIES = together(
    click.option(
        "--latency-calculator",
        type=click.Choice(["", "constant", "per-token"]),
        default="",
        show_default=False,
        help="Latencies to use if both kinds are given: those for a whole prompt (the default), "
        "or those with a time per token.",
    ),
    *(
        click.option(f"--{name}", metavar="TIME", callback=seconds, help=told)
        for name, told in _TIMES.items()
    ),
    click.option(
        "--time-factor-under-load",
        type=click.FloatRange(min=1),
        help="Factor on the time between tokens with --max-num-seqs running.",
    ),
)
LATENCY_NAMES = ("latency_calculator", "time_factor_under_load", *(name.replace("-", "_") for name in _TIMES))


def latency_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Settings that can change while an engine runs, by name; times in nanoseconds."""
    return {
        name: round(value * 1e9) if isinstance(value, float) and name != "time_factor_under_load" else value
        for name, value in given.items()
    }


def latency_note(given: dict[str, Any]) -> str:
    """A note about options that have no effect because others take precedence; empty if there are none."""
    per_token = [name for name in ("prefill_overhead", "prefill_time_per_token") if given[name] is not None]
    if given["latency_calculator"] or not given["time_to_first_token"] or not per_token:
        return ""
    flags = " and ".join(f"--{name.replace('_', '-')}" for name in per_token)
    return (
        f"note: --time-to-first-token takes precedence over {flags}; --latency-calculator per-token reverses "
        "that"
    )


# Options for the cache and its events under llm-d-inference-sim's names, besides vLLM's single option.
EVENTS = together(
    click.option("--kv-events-config", metavar="JSON", help="Where to publish cache events, as in vLLM."),
    click.option(
        "--enable-kvcache",
        is_flag=True,
        help="Publish cache events to --zmq-endpoint as llm-d-inference-sim does, with the options below.",
    ),
    click.option(
        "--zmq-endpoint",
        default="tcp://127.0.0.1:5557",
        help="Address of the subscriber; with the host *, the engine listens itself.",
    ),
    click.option("--event-batch-size", type=COUNT, default=16, help="Maximum events per batch."),
    click.option(
        "--use-vllm-map-event-format", is_flag=True, help="Encode events as maps instead of arrays."
    ),
    click.option("--kv-events-replay-endpoint", help="Address for requests of missed batches."),
    click.option(
        "--kv-events-replay-queue-size",
        type=COUNT,
        default=1024,
        help="Batches kept for replay.",
    ),
)


def kv_events_config(given: dict[str, Any]) -> KvEventsConfig | None:
    """Remove these options from `given` and return their configuration. Raises ValueError."""
    from headgate.simulator import server

    as_json, enabled = given.pop("kv_events_config"), given.pop("enable_kvcache")
    replay = given.pop("kv_events_replay_endpoint")
    words = {
        "endpoint": given.pop("zmq_endpoint"),
        "batch_events": given.pop("event_batch_size"),
        "form": "map" if given.pop("use_vllm_map_event_format") else "array",
        "buffer_steps": given.pop("kv_events_replay_queue_size"),
    }
    if as_json:
        if enabled:
            raise ValueError("--enable-kvcache cannot be combined with --kv-events-config")
        return server.read_kv_events(as_json)
    if not enabled:
        return None
    connects = "*" not in words["endpoint"]
    return server.KvEventsConfig(**words, connect=connects, replay_endpoint=replay or None)
