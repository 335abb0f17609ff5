"""`headgate profile`: the command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.cli import options

if TYPE_CHECKING:
    from headgate.cli.profile.measuring import Measured, Plan
    from headgate.loadtest import Server

_MAX_KEY_BYTES = 4096
_MAX_TOKENS = 100_000
_MAX_LENGTHS = 4
MAX_BATCH = 1024


def _lengths(ctx: click.Context, param: click.Parameter, text: str) -> tuple[int, ...]:
    """Comma-separated numbers of tokens."""
    try:
        found = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        found = ()
    if not 1 <= len(found) <= _MAX_LENGTHS or not all(1 <= each <= _MAX_TOKENS for each in found):
        wanted = f"up to {_MAX_LENGTHS} numbers from 1 to {_MAX_TOKENS} such as 256,1024"
        raise click.BadParameter(f"{text!r} is not {wanted}", ctx, param)
    return found


@click.command(short_help="Measure an engine, for plans.")
@click.argument("url")
@click.option("--model", help="Model to measure. Default: the only one that the engine serves.")
@click.option(
    "--max-batch",
    type=click.IntRange(2, MAX_BATCH),
    default=64,
    help="Largest number of requests at a time, and the maxBatchSize that is printed.",
)
@click.option(
    "--prompt-tokens",
    callback=_lengths,
    default="512",
    metavar="TOKENS,...",
    help="Lengths of prompts: the mean of yours, or several.",
)
@click.option(
    "--output-tokens",
    type=click.IntRange(8, 4096),
    default=128,
    help="Length of responses. Shorter ones are measured faster, and share more of their time with prefills.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(1, 3600),
    default=300.0,
    metavar="SECONDS",
    help="Time for all of it; after it, the profile of what was measured is printed.",
)
@click.option(
    "--api-key-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with the API key, if the engine wants one.",
)
@options.output("yaml", "json")
def profile(
    url: str,
    model: str | None,
    max_batch: int,
    prompt_tokens: tuple[int, ...],
    output_tokens: int,
    time_limit: float,
    api_key_file: Path | None,
    output: str,
) -> None:
    """Measure how fast an engine is at several batch sizes, and print its profile for plans.

    URL is that of an engine with OpenAI's API that nobody else uses meanwhile. The output goes below `spec`
    of a VariantAutoscaling.

    Example: headgate profile http://127.0.0.1:8000 --max-batch 32 --prompt-tokens 1024
    """
    from headgate.cli import process
    from headgate.cli.objects import printing
    from headgate.cli.profile import measuring, rendering, results
    from headgate.loadtest import HttpError, http

    try:
        server = http.parse(url, _api_key(api_key_file))
    except ValueError as error:
        raise click.UsageError(f"URL: {error}") from error
    plan = measuring.Plan(measuring.batches(max_batch), prompt_tokens, output_tokens, time_limit)
    try:
        measured = process.run_once(lambda: _measure(server, model, plan))
        found = results.result(server.url, measured, output_tokens)
    except HttpError as error:
        raise click.ClickException(printing.escaped(f"{server.url}: {error}")) from error
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)
    if output == "json":
        click.echo(rendering.as_json(found), nl=False)
        return
    for line in rendering.as_yaml(found):
        click.echo(line)


async def _measure(server: Server, model: str | None, plan: Plan) -> Measured:
    from rich.console import Console

    from headgate.cli.objects import printing
    from headgate.cli.profile import measuring
    from headgate.cli.progress import Progress
    from headgate.loadtest import served_model

    def name(batch: int, tokens: int) -> str:
        return f"batch {batch}" if len(plan.prompt_tokens) == 1 else f"batch {batch}, {tokens} tokens"

    console = Console(stderr=True)
    steps = ["warm-up", *(name(batch, tokens) for batch in plan.batches for tokens in plan.prompt_tokens)]
    with Progress(console, steps) as progress:
        progress.detail("warm-up", "waiting for the first token")
        is_warm = False

        def report(batch: int, tokens: int, is_over: bool, text: str) -> None:
            nonlocal is_warm
            if not is_warm:
                is_warm = True
                progress.done("warm-up", printing.escaped(chosen))
            if is_over:
                progress.done(name(batch, tokens), text)
            elif console.is_terminal:
                progress.detail(name(batch, tokens), text)

        chosen = model or await served_model(server)
        return await measuring.measure(server, chosen, plan, report)


def _api_key(path: Path | None) -> str:
    """The content of the file. Raises ClickException."""
    if path is None:
        return ""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_KEY_BYTES + 1)
    except OSError as error:
        raise click.ClickException(f"--api-key-file: {path}: {error.strerror}") from error
    key = data.decode("ascii", "replace").strip()
    if not key or len(data) > _MAX_KEY_BYTES or not (key.isascii() and key.isprintable()):
        raise click.ClickException(f"--api-key-file: {path} has no valid key")
    return key
