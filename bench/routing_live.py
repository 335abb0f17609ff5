"""Where the requests of a trace are sent: our gateway and the cache-aware policies of the Rust routers.

Eight simulated engines serve HTTP, each router in turn runs in front of them, and clients send the requests
of a slice of the Mooncake conversation trace, at its times. docs/benchmarks.md describes what is measured and
why.

    make bench-routing-live ARGS="--trace path/to/mooncake_conversation.jsonl"
"""

from __future__ import annotations

import asyncio
import json
import signal
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import uvloop
from rich.console import Console
from rich.table import Table

import cpu
import proxies
from headgate.simulator.fleet.summary import percentiles
from headgate.traffic import traces
from live import clients, prompts, running

ENGINES = 8
ROUTERS = ("headgate", "vllm-router", "sglang-router", "smg")
BLOCK_TOKENS = prompts.BLOCK_TOKENS

progress = Console(stderr=True)


@dataclass(frozen=True)
class Slice:
    """The requests for every router."""

    trace: Path
    requests: int
    rate: float
    cache_blocks: int
    slo_s: float
    seed: int
    most_output: int


def run(name: str, asked: Sequence[prompts.Request], chosen: Slice) -> dict[str, Any]:
    """One router's row: new engines with cold caches, the router, the slice."""
    proxy = proxies.PROXIES[name]()
    # Any 200 means ready: these engines respond differently from the benchmark's own.
    proxy.passes_bytes = False  # type: ignore[misc]
    did: list[dict[str, float]] = []
    row: dict[str, Any] = {"router": name}
    try:
        row["version"] = proxy.install()
        with running.engines(ENGINES, chosen.cache_blocks * BLOCK_TOKENS, did) as upstreams:
            port, pid = proxy.start(upstreams, cache_aware=True)
            before = cpu.cpu_seconds(pid)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                seen = runner.run(clients.replay(port, asked))
            row["cpu_us"] = round((cpu.cpu_seconds(pid) - before) / len(asked) * 1e6)
            proxy.stop()
    except (proxies.UnavailableError, RuntimeError, OSError) as error:
        return row | {"unavailable": str(error) or type(error).__name__}
    finally:
        proxy.stop()
    return row | summary(seen, did, asked, chosen.slo_s)


def summary(
    seen: Sequence[clients.Seen],
    did: Sequence[dict[str, float]],
    asked: Sequence[prompts.Request],
    slo_s: float,
) -> dict[str, Any]:
    """Times of requests with a response; those without count as beyond any limit."""
    first = [each.first_token_s for each in seen if each.is_whole and each.first_token_s is not None]
    times = percentiles(first)
    prompt_tokens = sum(request.prompt_tokens for request in asked)
    prefilled = [engine["prefilled_tokens"] for engine in did]
    return {
        "requests": len(seen),
        "answered": len(first),
        "ttft_p50_s": round(times.p50, 3) if first else None,
        "ttft_p90_s": round(times.p90, 3) if first else None,
        "ttft_p99_s": round(times.p99, 3) if first else None,
        "within_slo": round(sum(value <= slo_s for value in first) / len(seen), 4),
        "hit_rate": round(max(0.0, 1 - sum(prefilled) / prompt_tokens), 4),
        "balance": round(max(prefilled) / statistics.mean(prefilled), 3) if sum(prefilled) else 0.0,
        "engines": list(did),
    }


def table(rows: Sequence[dict[str, Any]], chosen: Slice) -> Table:
    shown = Table(
        title=f"{chosen.requests} requests of {chosen.trace.name} at {chosen.rate:g}/s over {ENGINES} "
        f"engines with {chosen.cache_blocks} blocks of {BLOCK_TOKENS} tokens",
        title_justify="left",
    )
    columns = ("router", "TTFT p50", "p90", "p99", f"within {chosen.slo_s:g} s", "hits", "max/mean", "CPU µs")
    for place, column in enumerate(columns):
        shown.add_column(column, justify="right" if place else "left")
    for row in rows:
        name = f"{row['router']} {row.get('version', '')}".strip()
        if "unavailable" in row:
            shown.add_row(name, row["unavailable"], *[""] * 6)
            continue
        found = [row[f"ttft_p{number}_s"] for number in (50, 90, 99)]
        times = ["-" if time_s is None else f"{time_s:.2f} s" for time_s in found]
        shares = [f"{row[key]:.1%}" for key in ("within_slo", "hit_rate")]
        shown.add_row(name, *times, *shares, f"{row['balance']:.2f}", f"{row['cpu_us']:,}")
    return shown


@click.command(help=__doc__)
@prompts.trace_option
@click.option("--requests", type=click.IntRange(2), default=1000, show_default=True)
@click.option(
    "--rate", type=click.FloatRange(min=0.01), default=9.0, show_default=True, help="Requests per second."
)
@prompts.cache_blocks_option
@click.option("--slo-s", type=click.FloatRange(min=0), default=2.0, show_default=True, help="TTFT objective.")
@prompts.most_output_option
@click.option("--seed", default=1, show_default=True)
@click.option("--only", default=",".join(ROUTERS), show_default=True, help="Routers.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(
    trace: Path,
    requests: int,
    rate: float,
    cache_blocks: int,
    slo_s: float,
    most_output: int,
    seed: int,
    only: str,
    output: str,
) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwind, so that every started process ends
    names = [name.strip() for name in only.split(",") if name.strip()]
    if unknown := [name for name in names if name not in proxies.PROXIES]:
        raise click.BadParameter(
            f"{', '.join(unknown)}: not one of {', '.join(ROUTERS)}", param_hint="--only"
        )
    (proxies.CACHE / "run").mkdir(parents=True, exist_ok=True)
    chosen = Slice(trace, requests, rate, cache_blocks, slo_s, seed, most_output)
    try:
        asked = prompts.read(trace, requests=requests, rate=rate, most_output=most_output, seed=seed)
    except traces.TraceError as error:
        raise click.ClickException(f"--trace: {error}") from error
    rows = []
    for name in names:
        progress.print(f"[dim]{name}: {asked[-1].at_s:.0f} s of requests")
        rows.append(run(name, asked, chosen))
    if output == "json":
        settings = {
            key: str(value) if isinstance(value, Path) else value for key, value in vars(chosen).items()
        }
        click.echo(json.dumps({"settings": settings, "machine": cpu.machine(), "rows": rows}, indent=2))
    else:
        Console().print(table(rows, chosen))


if __name__ == "__main__":
    main()
