"""`headgate crds`: print the CustomResourceDefinitions of Headgate's kinds."""

from __future__ import annotations

import json
from pathlib import Path

import click
import yaml

from headgate.cli import options
from headgate.cli.kinds import Definition, complete_kind, definitions_named

_HEADER = "# Made by `headgate crds` from the types of this version; not for editing.\n"


class _Dumper(yaml.CSafeDumper):
    """Repeats shared parts in full instead of using aliases: people and other tools read the files."""

    def ignore_aliases(self, data: object) -> bool:
        return True


@click.command()
@click.argument("kinds", nargs=-1, metavar="[KIND]...", shell_complete=complete_kind)
@options.output("yaml", "json", help="Output format.")
@click.option(
    "-d",
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write one file for each kind to this directory instead of standard output.",
)
def crds(kinds: tuple[str, ...], output: str, directory: Path | None) -> None:
    """Print the CustomResourceDefinitions of all or some kinds.

    KIND is any name that kubectl accepts: ModelRoute, modelroutes, mr, modelroutes.networking.volcano.sh.
    The output is the same every time.

    Example: headgate crds | kubectl apply --server-side -f -
    """
    from headgate import api

    definitions = _chosen(kinds) if kinds else api.custom_definitions()
    if directory is not None:
        _write(definitions, directory, output)
    elif output == "json":
        listed = {"apiVersion": "v1", "kind": "List", "items": definitions}
        click.echo(rendered_json(definitions[0] if len(definitions) == 1 else listed), nl=False)
    else:
        click.echo("---\n".join(rendered_yaml(definition) for definition in definitions), nl=False)


def rendered_yaml(definition: Definition) -> str:
    """One definition as a YAML document, with a header that says how it was generated."""
    return _HEADER + yaml.dump(definition, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def rendered_json(manifest: Definition) -> str:
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def _chosen(names: tuple[str, ...]) -> list[Definition]:
    """The definitions that the names select, without duplicates, in the order of the names."""
    found = {
        definition["metadata"]["name"]: definition for name in names for definition in definitions_named(name)
    }
    return list(found.values())


def _write(definitions: list[Definition], directory: Path, output: str) -> None:
    render = rendered_json if output == "json" else rendered_yaml
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for definition in definitions:
            file = directory / f"{definition['metadata']['name']}.{output}"
            file.write_text(render(definition), encoding="utf-8")
            click.echo(file)
    except OSError as error:
        raise click.ClickException(f"{error.filename or directory}: {error.strerror or error}") from error
