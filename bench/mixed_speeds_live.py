"""Four engines, two of them at half speed: our default policy and formulas of other routers, over HTTP.

Engines, the gateway and clients are processes that communicate over HTTP. All policies run in the gateway,
one after the other, in several rounds; those of one round get the same requests, and each run begins with
cold caches. docs/benchmarks.md has details.

    python bench/mixed_speeds_live.py --trace path/to/mooncake_conversation.jsonl
"""

from __future__ import annotations

import asyncio
import json
import signal
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec
import uvloop
from rich import box
from rich.console import Console
from rich.table import Table

import cpu
import proxies
from headgate.traffic import traces
from live import clients, policies, prompts, running
from proxies.headgate import Headgate

ENGINES, HALF_SPEED = 4, 2
LIMITS_S = (2.0, 4.0)
"""For the first token: the second limit is for slow engines, which need twice as long for a prompt."""
ENOUGH_IDLE = 0.25
"""With less idle CPU time, the machine itself is the bottleneck."""

progress = Console(stderr=True)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One policy in one round."""

    policy: str
    within: list[float]
    """Shares of requests with a first token within each limit; those without a response are beyond any."""
    mean_ttft_s: float
    hit_rate: float
    slow_share: float
    """Share of prefilled tokens on the slow engines. Proportional to their speed, it would be a third."""
    idle: float
    """Share of the machine's CPU time."""


def run(policy: str, asked: Sequence[prompts.Request], cache_blocks: int) -> Run:
    """Run new engines with cold caches, and the gateway with this policy, on the requests."""
    folder = proxies.CACHE / "run"
    folder.mkdir(parents=True, exist_ok=True)
    gateway = Headgate(flags=policies.flags(policy, folder))
    # Any 200 means ready: these engines respond differently from the benchmark's own.
    gateway.passes_bytes = False  # type: ignore[misc]
    did: list[dict[str, float]] = []
    try:
        cache_tokens = cache_blocks * prompts.BLOCK_TOKENS
        with running.engines(ENGINES, cache_tokens, did, half_speed=HALF_SPEED) as upstreams:
            port, _ = gateway.start(upstreams, cache_aware=True)
            idle_before, all_before = cpu.machine_ticks()
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                seen = runner.run(clients.replay(port, asked))
            idle, every = cpu.machine_ticks()
            gateway.stop()
    finally:
        gateway.stop()
    return summary(policy, seen, did, asked, (idle - idle_before) / (every - all_before))


def summary(
    policy: str,
    seen: Sequence[clients.Seen],
    did: Sequence[Mapping[str, float]],
    asked: Sequence[prompts.Request],
    idle: float,
) -> Run:
    first = [each.first_token_s for each in seen if each.is_whole and each.first_token_s is not None]
    prefilled = [engine["prefilled_tokens"] for engine in did]
    prompt_tokens = sum(request.prompt_tokens for request in asked)
    return Run(
        policy=policy,
        within=[round(sum(ttft_s <= limit_s for ttft_s in first) / len(seen), 4) for limit_s in LIMITS_S],
        mean_ttft_s=round(statistics.mean(first), 3) if first else float("inf"),
        hit_rate=round(max(0.0, 1 - sum(prefilled) / prompt_tokens), 4),
        slow_share=round(sum(prefilled[-HALF_SPEED:]) / max(sum(prefilled), 1.0), 4),
        idle=round(idle, 3),
    )


def medians(runs: Sequence[Run]) -> list[Run]:
    """Medians over the rounds of each policy; for idle time, the minimum."""
    found = []
    for policy in dict.fromkeys(each.policy for each in runs):
        own = [each for each in runs if each.policy == policy]
        found.append(
            Run(
                policy=policy,
                within=[statistics.median(shares) for shares in zip(*(e.within for e in own), strict=True)],
                mean_ttft_s=statistics.median(each.mean_ttft_s for each in own),
                hit_rate=statistics.median(each.hit_rate for each in own),
                slow_share=statistics.median(each.slow_share for each in own),
                idle=min(each.idle for each in own),
            )
        )
    return found


def of_best_peer(rows: Sequence[Run]) -> list[float]:
    """Our goodput within each limit relative to the best of the others. Empty without ours, or a peer."""
    ours = [each for each in rows if each.policy == policies.OURS]
    peers = [each for each in rows if each.policy != policies.OURS]
    if not ours or not peers:
        return []
    best = [max(shares) for shares in zip(*(peer.within for peer in peers), strict=True)]
    return [round(share / most, 4) if most else 1.0 for share, most in zip(ours[0].within, best, strict=True)]


def table(rows: Sequence[Run]) -> Table:
    shown = Table(box=box.MARKDOWN)
    limits = [f"within {limit_s:g} s" for limit_s in LIMITS_S]
    for place, column in enumerate(("policy", *limits, "mean TTFT", "hits", "on slow engines", "least idle")):
        shown.add_column(column, justify="right" if place else "left")
    for row in rows:
        shares = [f"{share:.1%}" for share in (*row.within, row.hit_rate, row.slow_share, row.idle)]
        shown.add_row(row.policy, *shares[:2], f"{row.mean_ttft_s:.2f} s", *shares[2:])
    return shown


def verdict(rows: Sequence[Run]) -> list[str]:
    """The text below the table."""
    lines = []
    if ratios := of_best_peer(rows):
        each = ", ".join(
            f"{ratio:.1%} within {limit_s:g} s" for ratio, limit_s in zip(ratios, LIMITS_S, strict=True)
        )
        lines.append(f"{policies.OURS} of the best peer: {each}")
    if min(row.idle for row in rows) < ENOUGH_IDLE:
        lines.append(f"Less than {ENOUGH_IDLE:.0%} of the machine was idle in a run: its CPU was measured.")
    return lines


@click.command(help=__doc__)
@prompts.trace_option
@click.option("--requests", type=click.IntRange(2), default=300, show_default=True)
@click.option(
    "--rate", type=click.FloatRange(min=0.01), default=2.5, show_default=True, help="Requests per second."
)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Rounds, for medians.")
@prompts.cache_blocks_option
@prompts.most_output_option
@click.option("--seed", default=1, show_default=True, help="Seed of the first round's times.")
@click.option("--only", default=",".join(policies.POLICIES), show_default=True, help="Policies.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(**options: Any) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwind, so that every started process ends
    names = [name.strip() for name in options["only"].split(",") if name.strip()]
    if unknown := [name for name in names if name not in policies.POLICIES]:
        raise click.UsageError(f"--only: no policy {', '.join(unknown)}; there are {policies.POLICIES}")
    runs = []
    for number in range(options["rounds"]):
        asked = _asked(options, options["seed"] + number)
        # Each round begins with another policy, so that no policy always follows the same one.
        for name in names[number % len(names) :] + names[: number % len(names)]:
            runs.append(run(name, asked, options["cache_blocks"]))
            said = msgspec.json.encode(runs[-1]).decode()
            progress.print(f"[dim]round {number + 1}: {said}", soft_wrap=True)
    rows = sorted(medians(runs), key=lambda row: -sum(row.within))
    if options["output"] == "json":
        settings = {name: str(value) for name, value in options.items()}
        report = {"settings": settings, "machine": cpu.machine(), "of_best_peer": of_best_peer(rows)}
        click.echo(json.dumps(report | {"runs": msgspec.to_builtins(runs)}, indent=2))
        return
    Console(width=120).print(table(rows))
    for line in verdict(rows):
        click.echo(line)


def _asked(options: Mapping[str, Any], seed: int) -> list[prompts.Request]:
    try:
        return prompts.read(
            options["trace"],
            requests=options["requests"],
            rate=options["rate"],
            most_output=options["most_output"],
            seed=seed,
        )
    except traces.TraceError as error:
        raise click.ClickException(f"--trace: {error}") from error


if __name__ == "__main__":
    main()
