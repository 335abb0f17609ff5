"""`headgate download`: bring the weights of a model or an adapter into a directory."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import click

from headgate.cli import options


def _checked_name(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[\w-][\w.-]{0,200}", value, re.ASCII):
        raise click.BadParameter(f"{value!r}: use letters, digits, '-', '_' and '.'")
    return value


@click.command()
@click.option(
    "--source",
    required=True,
    metavar="URI",
    help="hf://org/name[@revision], s3://bucket/prefix, pvc://claim/path, or a directory.",
)
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory for the files. It appears once all of them are complete and verified.",
)
@click.option(
    "--cache-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Instead of --output-dir: a cache, in which the directory is named by the MD5 hash of the source.",
)
@click.option(
    "--include",
    multiple=True,
    metavar="GLOB",
    envvar="DOWNLOAD_INCLUDE",
    show_envvar=True,
    help="Only files that match; repeatable.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="GLOB",
    envvar="DOWNLOAD_EXCLUDE",
    show_envvar=True,
    help="Not these files; repeatable.",
)
@click.option("--connections", type=click.IntRange(1, 64), default=8, help="Parallel requests.")
@click.option(
    "--name", callback=_checked_name, help="Name of the status file. Default: that of the directory."
)
@click.option(
    "--status-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory in which NAME.json shows the progress.",
)
@options.output("text", "json")
def download(
    source: str,
    output_dir: Path | None,
    cache_dir: Path | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    connections: int,
    name: str | None,
    status_dir: Path | None,
    output: str,
) -> None:
    """Download a model into a directory that several processes may share.

    Processes with the same directory download once: one works, the others wait. An interrupted download
    continues where it stopped. If it fails, the message names the cause and the fix, and is also written to
    /dev/termination-log or $TERMINATION_LOG if that file exists; each cause has its own exit code.

    Example: headgate download --source hf://org/name --output-dir /models/name
    """
    from headgate import downloads
    from headgate.cli import download_reports, process

    if (output_dir is None) == (cache_dir is None):
        raise click.UsageError("give either --output-dir or --cache-dir")
    target = output_dir or downloads.cache_directory(cache_dir or Path(), source)
    reports = download_reports.Reports(
        source=source, name=name or target.name, directory=target, status_dir=status_dir, output=output
    )
    wanted = downloads.Options(downloads.Patterns(include, exclude), connections)

    async def main(stop: asyncio.Event) -> None:
        halt = downloads.Halt()
        working = asyncio.create_task(
            asyncio.to_thread(
                downloads.fetch, source, target, os.environ, options=wanted, halt=halt, report=reports.show
            )
        )
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        halt.set()
        stopping.cancel()
        await working

    try:
        reports.start()
        process.run(main)
    except downloads.DownloadError as error:
        reports.fail(error)
        raise SystemExit(error.reason.value) from error
