"""Latencies as llm-d-inference-sim is told them, of a lone request and under load, in place of costs."""

from __future__ import annotations

from typing import Any

import click

from headgate.cli.simulate.engine.grouping import options, seconds

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
LATENCIES = options(
    click.option(
        "--latency-calculator",
        type=click.Choice(["", "constant", "per-token"]),
        default="",
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
NAMES = ("latency_calculator", "time_factor_under_load", *(name.replace("-", "_") for name in _TIMES))


def settings(given: dict[str, Any]) -> dict[str, Any]:
    """Options by the names of the settings that change while an engine runs; times in nanoseconds."""
    return {
        name: round(value * 1e9) if isinstance(value, float) and name != "time_factor_under_load" else value
        for name, value in given.items()
    }


def note(given: dict[str, Any]) -> str:
    """What of the settings does not count, as others go before it; empty if all does."""
    per_token = [name for name in ("prefill_overhead", "prefill_time_per_token") if given[name] is not None]
    if given["latency_calculator"] or not given["time_to_first_token"] or not per_token:
        return ""
    flags = " and ".join(f"--{name.replace('_', '-')}" for name in per_token)
    return f"note: --time-to-first-token goes before {flags}; --latency-calculator per-token turns that round"
