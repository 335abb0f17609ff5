"""Where `headgate flow` asks: the admin port of a running gateway."""

from __future__ import annotations

from pathlib import Path

import click
import httpx2
import msgspec

from headgate.cli import machine_state
from headgate.cli.flow import merging
from headgate.gateway.queueing.shown import QueueShown

PATIENCE_S = 10.0


def of_machine(said: Path | None, state: Path) -> str:
    """The admin port that `headgate up` has written down; ClickException if `said`, a --state, has none."""
    try:
        return (state / machine_state.GATEWAY_FILE).read_text().strip()
    except OSError as error:
        if said is None:
            return machine_state.DEFAULT_GATEWAY
        told = f"no gateway is known in {state}: {error.strerror}: {error.filename}"
        raise click.ClickException(f"{told}\nStart one with `headgate up --state {state}`.") from error


def ask(url: str, pool: str | None) -> dict[str, QueueShown]:
    """The queue of each pool, or of those of one name. Raises ClickException."""
    return _chosen(_ask(url), pool)


def _chosen(pools: dict[str, QueueShown], pool: str | None) -> dict[str, QueueShown]:
    if pool is None:
        return pools
    # An InferencePool is called by its kind as well, as a ModelServer may have the same name.
    chosen = {name: shown for name, shown in pools.items() if name == pool or name.endswith(f"/{pool}")}
    if not chosen:
        known = ", ".join(sorted(pools)) or "none"
        raise click.ClickException(f"the gateway has no pool {pool!r}; it has: {known}")
    return chosen


def _ask(url: str) -> dict[str, QueueShown]:
    """What the gateway tells, its workers taken together."""
    base = url.rstrip("/") if "://" in url else f"http://{url}".rstrip("/")
    try:
        response = httpx2.get(f"{base}/debug/flow", timeout=PATIENCE_S, trust_env=False)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise click.ClickException(
            f"no answer from the gateway at {base}: {error}\n"
            f"--gateway is the address of its admin port, by default {machine_state.DEFAULT_GATEWAY}."
        ) from error
    if response.status_code != 200:
        raise click.ClickException(
            f"{base} answered {response.status_code}: {response.text[:500]}\n"
            f"Is it the admin port of a gateway? By default that is {machine_state.DEFAULT_GATEWAY}."
        )
    try:
        told = msgspec.json.decode(response.content, type=dict[str, msgspec.Raw])
        told.pop("no_answer", None)  # workers that are silent have no part in it
        queues = {name: msgspec.json.decode(raw, type=list[QueueShown]) for name, raw in told.items()}
    except msgspec.DecodeError as error:
        raise click.ClickException(f"{base} answered with something else than its queues: {error}") from error
    return {name: merging.merged(each) for name, each in queues.items() if each}
