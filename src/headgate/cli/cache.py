"""`headgate cache`: list, verify and prune the downloads in a directory that several processes share."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.cli import options

if TYPE_CHECKING:
    from headgate.downloads.cache import Entry

_DAY_S = 86400.0
_cache_dir = click.option(
    "--cache-dir",
    required=True,
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Directory of the downloads: the path of a cacheURI.",
)


@click.group(short_help="List, verify and prune downloaded models.")
def cache() -> None:
    """Downloads in a directory that several processes share."""


@cache.command("list")
@_cache_dir
@options.output("text", "json")
def list_(cache_dir: Path, output: str) -> None:
    """List downloads, complete and partial.

    USED is the time since a download last found it complete, or since its last write.
    """
    found = _entries(cache_dir)
    if output == "json":
        click.echo(json.dumps([_as_json(entry) for entry in found], indent=1))
        return
    rows = [("NAME", "SOURCE", "REVISION", "FILES", "SIZE", "USED", "STATE"), *map(_row, found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@cache.command()
@_cache_dir
@click.argument("names", nargs=-1, metavar="[NAME]...")
@options.output("text", "json")
def verify(cache_dir: Path, names: tuple[str, ...], output: str) -> None:
    """Read downloads, all or those named, and compare them with their manifests.

    The exit code is 1 if a file is missing, has changed, or does not belong there. Remove the directory, and
    the next `headgate download` fetches it again.
    """
    from headgate.downloads import cache as contents

    found = _named(_entries(cache_dir), names)
    problems = {entry.directory.name: list(contents.problems(entry)) for entry in found}
    if output == "json":
        click.echo(
            json.dumps(
                [{**_as_json(entry), "problems": problems[entry.directory.name]} for entry in found], indent=1
            )
        )
    else:
        for entry in found:
            _show_verified(entry, problems[entry.directory.name])
    if any(problems.values()):
        raise SystemExit(1)


def _show_verified(entry: Entry, problems: list[str]) -> None:
    name = entry.directory.name
    for problem in problems:
        click.echo(f"{name}: {problem}", err=True)
    if entry.manifest is None:
        click.echo(f"{name}: not complete")
    elif not problems:
        click.echo(f"{name}: {len(entry.manifest.files)} files are intact")


@cache.command()
@_cache_dir
@click.option("--unused-days", type=click.FloatRange(0), help="Remove what was not used for so many days.")
@click.option(
    "--max-size", metavar="QUANTITY", help="Remove the least recently used until the rest fits: 500Gi, 2T."
)
@click.option("--keep", multiple=True, metavar="URI", help="Never remove this source; repeatable.")
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@options.output("text", "json")
def prune(
    cache_dir: Path,
    unused_days: float | None,
    max_size: str | None,
    keep: tuple[str, ...],
    dry_run: bool,
    output: str,
) -> None:
    """Remove downloads that were not used for long, or that exceed a size.

    A download counts as used when `headgate download` finds it, which is when a Pod starts, and not while an
    engine runs: name the sources of running Models with --keep. What a process downloads now stays.
    """
    from headgate.downloads import cache as contents
    from headgate.downloads import space
    from headgate.kubeschema import quantity

    if unused_days is None and max_size is None:
        raise click.UsageError("say what to remove: --unused-days or --max-size")
    try:
        max_bytes = None if max_size is None else quantity.parse(max_size).rounded_up()
    except quantity.QuantityError as error:
        raise click.BadParameter(str(error), param_hint="--max-size") from error
    older_than_s = None if unused_days is None else unused_days * _DAY_S
    found = contents.to_prune(
        _entries(cache_dir), time.time(), older_than_s=older_than_s, max_bytes=max_bytes, keep=keep
    )
    results = []
    for entry in found:
        result = "would be removed" if dry_run else "removed" if _is_removed(entry) else "in use"
        results.append({**_as_json(entry), "result": result})
        if output == "text":
            click.echo(f"{entry.directory.name} ({_source(entry)}, {space.shown(entry.size)}): {result}")
    if output == "json":
        click.echo(json.dumps(results, indent=1))
    elif not found:
        click.echo("Nothing to remove")


def _is_removed(entry: Entry) -> bool:
    from headgate.downloads import cache as contents

    try:
        return contents.remove(entry)
    except OSError as error:
        raise click.ClickException(f"cannot remove {entry.directory}: {error.strerror}") from error


def _entries(cache_dir: Path) -> list[Entry]:
    from headgate.downloads import cache as contents

    try:
        return contents.entries(cache_dir)
    except OSError as error:
        raise click.ClickException(f"cannot read {cache_dir}: {error.strerror}") from error


def _named(found: Sequence[Entry], names: Sequence[str]) -> list[Entry]:
    known = {entry.directory.name for entry in found}
    if unknown := [name for name in names if name not in known]:
        raise click.UsageError(f"there is no download {unknown[0]!r}; `headgate cache list` shows them")
    return [entry for entry in found if not names or entry.directory.name in names]


def _source(entry: Entry) -> str:
    return entry.manifest.source if entry.manifest else "not complete"


def _row(entry: Entry) -> tuple[str, ...]:
    from headgate.downloads import space

    found, used = entry.manifest, _age(time.time() - entry.used)
    if found is not None:
        count = str(len(found.files))
        return (
            entry.directory.name,
            found.source,
            found.revision[:12] or "-",
            count,
            space.shown(found.size),
            used,
            "complete",
        )
    state = f"partial, of {entry.holder}" if entry.holder else "partial"
    return (entry.directory.name, "-", "-", "-", space.shown(entry.size), used, state)


def _age(seconds: float) -> str:
    for unit, length_s in (("d", _DAY_S), ("h", 3600.0), ("m", 60.0)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"


def _as_json(entry: Entry) -> dict[str, object]:
    found = entry.manifest
    return {
        "name": entry.directory.name,
        "directory": str(entry.directory),
        "source": found.source if found else None,
        "revision": found.revision if found else None,
        "files": len(found.files) if found else None,
        "size_bytes": entry.size,
        "used": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(entry.used)),
        "complete": found is not None,
        "holder": str(entry.holder) if entry.holder else None,
    }
