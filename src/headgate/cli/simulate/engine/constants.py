"""Options for the constants of the engine, by their names; those that are left out are the profile's."""

from __future__ import annotations

import click

from headgate.cli.simulate import sizes
from headgate.cli.simulate.engine.grouping import COUNT, RATE, SECONDS, options

ENGINE = options(
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
        show_default=True,
        help="Whether requests start first come, first served, or by their `priority`.",
    ),
)

JITTER = click.option(
    "--step-jitter", type=click.FloatRange(0, 1), help="Deviation of the time of a step, as a share of it."
)
SPECULATION = options(
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
