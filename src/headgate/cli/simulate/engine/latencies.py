"""Latencies as llm-d-inference-sim is told them, of a lone request and under load, in place of costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from headgate.cli.simulate.engine.grouping import options, seconds

if TYPE_CHECKING:
    from headgate.simulator.model import EngineConfig


LATENCIES = options(
    click.option(
        "--time-to-first-token",
        metavar="TIME",
        callback=seconds,
        help="Until the first token, whatever the prompt.",
    ),
    click.option(
        "--prefill-overhead",
        metavar="TIME",
        callback=seconds,
        help="Until the first token, and --prefill-time-per-token more.",
    ),
    click.option(
        "--prefill-time-per-token",
        metavar="TIME",
        callback=seconds,
        help="For each prompt token that is not cached.",
    ),
    click.option(
        "--inter-token-latency",
        metavar="TIME",
        callback=seconds,
        help="Between two tokens of a lone request.",
    ),
    click.option(
        "--time-factor-under-load",
        type=click.FloatRange(min=1),
        help="How many times as long that is with --max-num-seqs running.",
    ),
    click.option(
        "--kv-cache-transfer-latency",
        "kv_transfer_s",
        metavar="TIME",
        callback=seconds,
        default="0",
        help="Until a prompt has come from another engine, and --kv-transfer-per-token-s more.",
    ),
)
NAMES = (
    "time_to_first_token",
    "prefill_overhead",
    "prefill_time_per_token",
    "inter_token_latency",
    "time_factor_under_load",
)


def apply(config: EngineConfig, given: dict[str, float | None]) -> EngineConfig:
    """The costs that come to these latencies; what is not said stays. Raises ValueError."""
    import msgspec

    first, overhead, per_token, between, factor = (given[name] for name in NAMES)
    if first is not None and (overhead is not None or per_token is not None):
        raise ValueError(
            "--time-to-first-token: leave it out where prefill has an overhead or a time per token"
        )
    if factor is not None and between is None:
        raise ValueError("--time-factor-under-load: needs --inter-token-latency too")
    costs = config.costs
    if between is not None:
        more_s = between * ((factor or 1.0) - 1.0) / max(1, config.max_num_seqs - 1)
        costs = msgspec.structs.replace(
            costs, base_s=max(0.0, between - more_s), per_decode_sequence_s=more_s, per_kv_token_s=0.0
        )
    start_s = overhead if first is None else first
    if start_s is not None:
        if start_s < costs.base_s:
            name = "--prefill-overhead" if first is None else "--time-to-first-token"
            raise ValueError(f"{name}: must be at least the time of a step, which is {costs.base_s:g} s")
        costs = msgspec.structs.replace(
            costs, per_start_s=start_s - costs.base_s, prefill_base_s=0.0, least_prefill_s=0.0
        )
    if first is not None:
        costs = msgspec.structs.replace(costs, per_prefill_token_s=0.0)
    elif per_token is not None:
        costs = msgspec.structs.replace(costs, per_prefill_token_s=per_token)
    return msgspec.structs.replace(config, costs=costs)
