"""`headgate runtime`: the sidecar of an engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.cli import options

if TYPE_CHECKING:
    from headgate import engines
    from headgate.runtime.engine import Address


def _address(_: click.Context, __: click.Parameter, text: str) -> Address:
    from headgate.runtime.engine import Address, AddressError

    try:
        return Address(text)
    except AddressError as error:
        raise click.BadParameter(str(error)) from error


def _kind(_: click.Context, __: click.Parameter, name: str) -> engines.Engine:
    from headgate import engines

    known = engines.named(name.lower().removesuffix("disaggregated"))
    if known.name == "OpenAI" and name.lower() != "openai":
        names = ", ".join(each.name for each in engines.KNOWN)
        raise click.BadParameter(f"{name!r} is not an engine; there are {names}")
    return known


def _path(_: click.Context, __: click.Parameter, text: str) -> str:
    from headgate.runtime.engine import is_path

    if not is_path(text):
        raise click.BadParameter(f"{text!r} is not a path such as /metrics")
    return text


@click.command()
@click.option(
    "-E",
    "--engine",
    "kind",
    callback=_kind,
    default="vLLM",
    help="Engine of the Pod: vLLM, SGLang, a backend type such as vLLMDisaggregated, or OpenAI for any "
    "other.",
)
@click.option(
    "-H",
    "--host",
    default="0.0.0.0",  # noqa: S104 - its callers are other machines
    envvar="POD_IP",
    show_envvar=True,
    help="Address to listen on.",
)
@click.option(
    "-P",
    "--port",
    type=click.IntRange(0, 65535),
    default=8100,
    envvar="RUNTIME_PORT",
    show_envvar=True,
    help="Port; 0 takes a free one.",
)
@click.option(
    "-B",
    "--engine-base-url",
    "engine_address",
    callback=_address,
    default="http://localhost:8000",
    envvar="RUNTIME_URL",
    show_envvar=True,
    help="URL of the engine.",
)
@click.option(
    "-M",
    "--engine-metrics-path",
    "metrics_path",
    callback=_path,
    default="/metrics",
    envvar="RUNTIME_METRICS_PATH",
    show_envvar=True,
    help="Path of its metrics page.",
)
@click.option("-I", "--pod", default="", envvar="POD_NAME", show_envvar=True, help="Name of the Pod.")
@click.option("-N", "--model", default="", help="Name of the model.")
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("/run/headgate"),
    help="Directory shared with `headgate download`, and of the desired adapters.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("/etc/headgate/runtime/token"),
    help="File with the token of calls that change something; without it, they are refused.",
)
@click.option(
    "--adapters-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("/weights"),
    help="Directory of downloads, which the engine has at the same path. Nothing is written elsewhere.",
)
@click.option(
    "--drain-timeout",
    "drain_max_s",
    type=click.FloatRange(min=0, max=24 * 3600),
    default=280.0,
    metavar="SECONDS",
    help="Most seconds that /drain waits; less than the grace period of the Pod.",
)
@options.log_level
def runtime(
    kind: engines.Engine,
    host: str,
    port: int,
    engine_address: Address,
    metrics_path: str,
    pod: str,
    model: str,
    state_dir: Path,
    token_file: Path,
    adapters_dir: Path,
    drain_max_s: float,
    log_level: str,
) -> None:
    """Run the sidecar of an engine: metrics with unified names, draining, downloads, LoRA adapters.

    After SIGTERM, it ends once the engine is gone or has no requests; a second signal ends it at once.
    """
    import asyncio

    from headgate.cli import process
    from headgate.runtime import RuntimeConfig, run_runtime

    config = RuntimeConfig(
        engine=kind,
        engine_address=engine_address,
        metrics_path=metrics_path,
        host=host,
        port=port,
        pod=pod,
        model=model,
        state_dir=state_dir,
        token_file=token_file,
        adapters_dir=adapters_dir,
        drain_max_s=drain_max_s,
    )

    def announce(address: str) -> None:
        process.say(f"headgate runtime is ready on {address}, beside {engine_address}", err=True)

    async def main(stop: asyncio.Event) -> None:
        await run_runtime(config, stop, announce)

    process.run(main, log_level=log_level)
