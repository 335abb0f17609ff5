"""Write the converted objects as manifests, one file each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from headgate.cli.importing.taking import to_create
from headgate.cli.objects.printing import as_yaml


def write(objects: Iterable[Mapping[str, Any]], directory: Path) -> list[Path]:
    """Write them into a new or empty directory; returns the files. Raises ClickException."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            told = f"--write {directory}: the directory is not empty; name a new one"
            raise click.ClickException(told)
        return [_write(obj, directory) for obj in objects]
    except OSError as error:
        raise click.ClickException(f"--write {directory}: {error.strerror or error}") from error


def _write(obj: Mapping[str, Any], directory: Path) -> Path:
    """The objects are valid, so that their names cannot lead out of the directory."""
    metadata = obj["metadata"]
    group = obj["apiVersion"].partition("/")[0]
    name = f"{metadata['namespace']}.{obj['kind'].lower()}.{group}.{metadata['name']}.yaml"
    if "/" in name:
        raise click.ClickException(f"{name}: not the name of an object")
    file = directory / name
    file.write_text(as_yaml(to_create(obj)))
    return file
