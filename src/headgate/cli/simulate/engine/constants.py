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
    click.option("--base-s", type=SECONDS, help="Seconds that every step takes."),
    click.option(
        "--per-decode-sequence-s", type=SECONDS, help="Seconds for each sequence that decodes in a step."
    ),
    click.option("--per-kv-token-s", type=SECONDS, help="Seconds for each token of context that these read."),
    click.option(
        "--per-prefill-token-s", type=SECONDS, help="Seconds for each prompt token prefilled in a step."
    ),
    click.option(
        "--prefill-base-s", type=SECONDS, help="What a step that prefills has for --base-s, if more."
    ),
    click.option("--least-prefill-s", type=SECONDS, help="Seconds that a step that prefills takes at least."),
    click.option("--per-start-s", type=SECONDS, help="Seconds for each request that starts in a step."),
    click.option("--max-num-seqs", type=COUNT, help="Sequences that run at once."),
    click.option("--max-model-len", type=COUNT, help="Tokens of prompt and answer together."),
    click.option("--prefill-budget-tokens", type=COUNT, help="Prompt tokens that one step may prefill."),
    click.option("--kv-blocks", "--kv-cache-size", "kv_blocks", type=COUNT, help="Blocks of the KV cache."),
    click.option("--block-size", type=COUNT, help="Tokens in one KV block."),
    click.option(
        "--host-kv-blocks",
        type=click.IntRange(min=0),
        help="Blocks of a second cache in the host's memory, which has what the first one drops.",
    ),
    click.option("--host-token-s", type=SECONDS, help="Seconds for each cached token that comes from there."),
    click.option(
        "--disk-kv-blocks",
        type=click.IntRange(min=0),
        help="Blocks of a third cache on a disk, which has what the host's memory drops.",
    ),
    click.option(
        "--disk-latency-s",
        type=SECONDS,
        help="Seconds before the first token that a request gets from there.",
    ),
    click.option("--disk-bytes-per-s", type=RATE, help="How fast its tokens come from there."),
    click.option(
        "--remote-kv-blocks",
        type=click.IntRange(min=0),
        help="Blocks of a store that the engines of this process share: each puts there what it computes.",
    ),
    click.option(
        "--remote-latency-s",
        type=SECONDS,
        help="Seconds before the first token that a request gets from there.",
    ),
    click.option("--remote-bytes-per-s", type=RATE, help="How fast its tokens come from there."),
    click.option("--kv-bytes-per-token", type=COUNT, help="Size of a token's keys and values."),
    *(
        click.option(
            f"--{name.replace('_', '-')}", type=RATE, help=f"Size in bytes, for --{blocks.replace('_', '-')}."
        )
        for name, blocks in sizes.IN_BLOCKS.items()
    ),
    click.option(
        "--max-waiting",
        "--max-waiting-queue-length",
        "max_waiting",
        type=click.IntRange(min=0),
        help="Requests taken beyond max-num-seqs; more get a 429.",
    ),
    click.option(
        "--enable-prefix-caching/--no-enable-prefix-caching",
        "prefix_cache",
        default=None,
        help="Whether prompts that share a beginning are computed once (they are).",
    ),
    click.option(
        "--max-loras", "max_adapters", type=click.IntRange(min=0), help="Adapters in memory at a time."
    ),
    click.option(
        "--max-cpu-loras",
        "max_host_adapters",
        type=COUNT,
        help="Adapters that the host's memory keeps, at least --max-loras.",
    ),
    click.option(
        "--adapter-host-load-s", type=SECONDS, help="Seconds that loading one of these from there takes."
    ),
    click.option("--adapter-load-s", type=SECONDS, help="Seconds that loading an adapter takes."),
    click.option(
        "--adapter-kv-blocks", type=click.IntRange(min=0), help="KV blocks whose memory an adapter takes."
    ),
    click.option(
        "--scheduling-policy",
        type=click.Choice(["fcfs", "priority"]),
        default="fcfs",
        help="Whether requests start first come, first served, or by their `priority`.",
    ),
)

JITTER = click.option(
    "--step-jitter", type=click.FloatRange(0, 1), help="Deviation of the time of a step, as a share of it."
)
SPECULATION = together(
    click.option(
        "--draft-tokens",
        type=click.IntRange(min=0),
        help="Tokens drafted in a step for each sequence (speculative decoding).",
    ),
    click.option(
        "--draft-acceptance",
        type=click.FloatRange(0, 1),
        help="How likely each of them is accepted, if those before it were.",
    ),
    click.option(
        "--draft-token-s", type=SECONDS, help="Seconds for each token that a step drafts, for all together."
    ),
)

# Latencies as in llm-d-inference-sim, for a lone request and under load, instead of step costs.
_TIMES = {
    "time-to-first-token": "Until the first token, whatever the prompt.",
    "time-to-first-token-std-dev": "Its deviation.",
    "prefill-overhead": "Until the first token, and --prefill-time-per-token more.",
    "prefill-time-per-token": "For each prompt token that is not cached.",
    "prefill-time-std-dev": "Deviation of --prefill-overhead.",
    "inter-token-latency": "Between two tokens of a lone request.",
    "inter-token-latency-std-dev": "Its deviation.",
    "kv-cache-transfer-latency": "Until a prompt has come from another engine.",
    "kv-cache-transfer-latency-std-dev": "Its deviation.",
    "kv-cache-transfer-time-per-token": "The same for each of its tokens.",
    "kv-cache-transfer-time-std-dev": "Deviation of the time that a whole prompt takes by that.",
}
LATENCIES = together(
    click.option(
        "--latency-calculator",
        type=click.Choice(["", "constant", "per-token"]),
        default="",
        show_default=False,
        help="Which times count where both kinds are given: those for a whole prompt (they do if this is "
        "left out), or those with a time per token.",
    ),
    *(
        click.option(f"--{name}", metavar="TIME", callback=seconds, help=told)
        for name, told in _TIMES.items()
    ),
    click.option(
        "--time-factor-under-load",
        type=click.FloatRange(min=1),
        help="How many times as long the time between tokens is with --max-num-seqs running.",
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
    return f"note: --time-to-first-token goes before {flags}; --latency-calculator per-token turns that round"


# Options for the cache and its events under llm-d-inference-sim's names, besides vLLM's single option.
EVENTS = together(
    click.option(
        "--kv-events-config", metavar="JSON", help="Where cache events are published, as vLLM's option."
    ),
    click.option(
        "--enable-kvcache",
        is_flag=True,
        help="Publish cache events to --zmq-endpoint, as llm-d-inference-sim; the options below say how.",
    ),
    click.option(
        "--zmq-endpoint",
        default="tcp://127.0.0.1:5557",
        help="Where a subscriber listens; with the host * the engine listens itself.",
    ),
    click.option("--event-batch-size", type=COUNT, default=16, help="Events sent together at most."),
    click.option(
        "--use-vllm-map-event-format", is_flag=True, help="Events are maps; otherwise they are arrays."
    ),
    click.option("--kv-events-replay-endpoint", help="Where batches are asked for that were missed."),
    click.option(
        "--kv-events-replay-queue-size",
        type=COUNT,
        default=1024,
        help="Batches that are kept for that.",
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
            raise ValueError("--enable-kvcache: leave it out where --kv-events-config is given")
        return server.read_kv_events(as_json)
    if not enabled:
        return None
    connects = "*" not in words["endpoint"]
    return server.KvEventsConfig(**words, connect=connects, replay_endpoint=replay or None)
