"""The simulated engines of the contest, all in one process: `python -m live.engines HOST:PORT ...`.

They prefill 16,000 tokens per second, with a KV cache of the requested size. Their statistics are printed as
one line of JSON when standard input ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys

import click
import uvloop

import upstream
from headgate.simulator import server
from headgate.simulator.model import EngineConfig, EngineStatistics, StepCosts

PREFILL_TOKENS_PER_S = 16_000
BLOCK_TOKENS = 16
COSTS = StepCosts(
    base_s=0.004,
    per_decode_sequence_s=5e-5,
    per_kv_token_s=0.0,
    per_prefill_token_s=1 / PREFILL_TOKENS_PER_S,
)


def config(cache_tokens: int, slower: float = 1.0) -> EngineConfig:
    """An engine that prefills in chunks of 2,048 tokens; its steps take `slower` times as long."""
    costs = {name: getattr(COSTS, name) * slower for name in COSTS.__struct_fields__}
    return EngineConfig(
        costs=StepCosts(**costs),
        max_num_seqs=512,
        max_model_len=131_072,
        prefill_budget_tokens=2048,
        kv_blocks=cache_tokens // BLOCK_TOKENS,
        block_size=BLOCK_TOKENS,
        max_waiting=10_000,
    )


async def serve(
    addresses: list[str], cache_tokens: int, slower: float, half_speed: int
) -> list[dict[str, float]]:
    """Serve until standard input ends; returns statistics. The last `half_speed` engines are half as fast."""
    async with contextlib.AsyncExitStack() as stack:
        engines = []
        for number, address in enumerate(addresses):
            host, _, port = address.rpartition(":")
            times = 2.0 if number >= len(addresses) - half_speed else 1.0
            settings = server.ServerSettings(
                engine=config(cache_tokens, slower * times),
                models=(upstream.MODEL,),
                seed=number,
                pod_name=f"engine-{number}",
            )
            listening = server.listen(host, int(port))
            engines.append(await stack.enter_async_context(server.running(settings, listening)))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        return [_did(engine.statistics()) for engine in engines]


def _did(read: EngineStatistics) -> dict[str, float]:
    return {
        "busy_s": round(read.busy_s_total, 3),
        "prefilled_tokens": read.prefill_tokens_total,
        "output_tokens": read.output_tokens_total,
        "requests": read.submitted_total,
        "preempted": read.preempted_total,
    }


@click.command()
@click.argument("addresses", nargs=-1, required=True)
@click.option("--cache-tokens", type=int, required=True)
@click.option("--slower", type=float, default=1.0)
@click.option("--half-speed", type=int, default=0)
def main(addresses: tuple[str, ...], cache_tokens: int, slower: float, half_speed: int) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        did = runner.run(serve(list(addresses), cache_tokens, slower, half_speed))
        print(json.dumps(did), flush=True)


if __name__ == "__main__":
    main()
