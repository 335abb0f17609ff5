"""`headgate serve`: the command and its options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.cli import images as images_file
from headgate.cli import options as shared

if TYPE_CHECKING:
    from headgate import node
    from headgate.cli.model.building import Wanted
    from headgate.cli.objects.connecting import Server

_ENGINES = ("vllm", "sglang", "mindie")
_LARGEST = 1_000_000


class _ServeCommand(click.Command):
    """Says where flags of the engine go, for an option that it does not know."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            hint = f"No such option: {name}. Flags of the engine follow --, as in: SOURCE -- {name}"
            if error.possibilities:
                hint += f". Did you mean {', '.join(error.possibilities)}?"
            raise click.UsageError(hint, ctx) from None


@click.command(cls=_ServeCommand)
@click.argument("source", metavar="URI|DIRECTORY")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, metavar="[-- ENGINE FLAGS]")
@click.option("--engine", type=click.Choice(_ENGINES), default="vllm", help="Engine that runs the model.")
@click.option("--name", help="Name that requests use. Default: from the last part of the source.")
@click.option("-n", "--namespace", help="Namespace. Default: the kubeconfig's.")
@click.option("--replicas", type=click.IntRange(1, _LARGEST), default=1, help="Engines to run.")
@click.option(
    "--adapter", "adapters", multiple=True, metavar="NAME=URI", help="LoRA adapter to serve; repeatable."
)
@click.option(
    "--cache",
    metavar="DIRECTORY|URI",
    help="Where downloads are kept: a directory, hostpath:///DIRECTORY or pvc://CLAIM; none: with the Pod. "
    "Default: ~/.cache/headgate/models on this machine, none in a cluster.",
)
@click.option(
    "--env", "env", multiple=True, metavar="NAME=VALUE", help="Variable of downloads and engine; repeatable."
)
@click.option("--image", help="Image of the engine. Default: the one that Headgate knows for it.")
@click.option("--gpus", type=click.IntRange(1, 1024), help="GPUs of each engine, as nvidia.com/gpu.")
@click.option("--print", "only_print", is_flag=True, help="Print the Model, and do nothing else.")
@click.option("--wait/--no-wait", "waits", default=True, help="Wait until the model answers.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds to wait. Default: any.",
)
@click.option(
    "--gateway", metavar="URL", help="URL of the inference API, to try the model. Default: this machine's."
)
@images_file.images
@shared.apiserver_port
@shared.output("text", "json")
@shared.server
def serve(
    server: Server,
    source: str,
    flags: tuple[str, ...],
    only_print: bool,
    output: str,
    images: node.ImagePrograms | None,
    apiserver_port: int,
    waits: bool,
    timeout_s: float | None,
    gateway: str | None,
    **given: Any,
) -> None:
    """Serve a model: write a Model, apply it, and wait until it answers.

    The source is hf://ORGANIZATION/NAME, s3://BUCKET/PATH, pvc://CLAIM[/PATH], or a directory of this
    machine. The Model is applied to the machine of --state, which is started here if it does not run, or to
    the API server of --kubeconfig or $KUBECONFIG. What follows -- are flags of the engine.

    Ctrl-C ends the command; the Model stays. Exits with 1 if the Model is rejected or fails.

    \b
    Examples:
      headgate serve hf://Qwen/Qwen3-0.6B
      headgate serve hf://Qwen/Qwen3-0.6B --adapter sql=hf://org/sql-lora -- --max-model-len 8192
      headgate serve ./weights --name chat --print
    """
    from headgate.cli.model import places, running

    place = places.of(server)
    wanted = _wanted(source, flags, place.machine, given)
    if only_print:
        running.show(wanted, place, output)
        return
    job = running.Job(
        wanted=wanted,
        place=place,
        output=output,
        waits=waits,
        timeout_s=timeout_s,
        gateway=gateway.rstrip("/") if gateway else None,
        images=Path(images.source) if images else None,
        apiserver_port=apiserver_port,
    )
    running.serve(job)


def _wanted(source: str, flags: tuple[str, ...], machine: Path | None, given: dict[str, Any]) -> Wanted:
    """The options as a Wanted. Raises UsageError."""
    from headgate.cli.model import building, sources
    from headgate.cli.model import flags as engine_flags

    if source.startswith("-"):
        raise click.UsageError(f"{source!r} is not a source: name it before the --")
    try:
        return building.Wanted(
            name=given["name"] if given["name"] is not None else sources.name_from(source),
            namespace=given["namespace"],
            source=sources.parse(source),
            engine=given["engine"],
            replicas=given["replicas"],
            adapters=building.adapters(given["adapters"]),
            cache=building.cache(given["cache"], source, has_machine=machine is not None),
            env=building.variables(given["env"]),
            image=given["image"],
            gpus=given["gpus"],
            config=engine_flags.config_of(flags, has_negations=given["engine"] == "vllm"),
        )
    except (building.WantedError, engine_flags.FlagError, sources.SourceError) as error:
        raise click.UsageError(str(error)) from error
