"""The process of the simulated engines while a router is measured in front of them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

import ports
import proxies


@contextlib.contextmanager
def engines(
    count: int, cache_tokens: int, did: list[dict[str, float]], slower: float = 1.0, half_speed: int = 0
) -> Iterator[list[tuple[str, int]]]:
    """Run `count` engines, the last `half_speed` of them at half speed; yields their addresses. Their
    statistics are in `did` after the context ends.
    """
    hosts = [f"127.72.0.{number}" for number in range(1, count + 1)]
    port = ports.held_port(hosts[0])
    addresses = [f"{host}:{port}" for host in hosts]
    command = [sys.executable, "-m", "live.engines", *addresses]
    command += ["--cache-tokens", str(cache_tokens), "--slower", str(slower), "--half-speed", str(half_speed)]
    with (proxies.CACHE / "run" / "engines.err").open("wb") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=Path(__file__).parents[1],
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "ready\n":
            raise click.ClickException("the simulated engines did not start")
        yield [(host, port) for host in hosts]
        said, _ = process.communicate(timeout=30)
        did.extend(json.loads(said))
    finally:
        process.kill()
        process.wait()
