"""Write the converted objects as manifests, one file each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from headgate.cli.importing.taking import to_create
from headgate.cli.objects.printing import as_yaml

_LONGEST = 200
"""Characters of a file's name; most file systems have a limit of 255 bytes."""


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
    name = f"{metadata['namespace']}.{obj['kind'].lower()}.{group}.{metadata['name']}"
    if "/" in name:
        raise click.ClickException(f"{name}: not the name of an object")
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}.{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    file = directory / f"{name}.yaml"
    file.write_text(as_yaml(to_create(obj)))
    return file
