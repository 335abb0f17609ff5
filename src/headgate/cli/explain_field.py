"""`headgate explain-field`: show a field's description, type, default and bounds, without a server."""

from __future__ import annotations

import json
from typing import Any

import click
from click.shell_completion import CompletionItem

from headgate.api import fields
from headgate.api.fields import Field
from headgate.cli import options
from headgate.cli.kinds import (
    Definition,
    api_version_of,
    complete_kind,
    definitions_named,
    explained_definitions,
    kind_of,
    schema_of,
)

_WIDTH = 100


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete kinds, and after the first dot their fields."""
    kind, dot, path = incomplete.partition(".")
    if not dot:
        return complete_kind(context, parameter, incomplete)
    parent, _, begun = path.rpartition(".")
    found: dict[str, None] = {}
    try:
        for definition in definitions_named(kind, explained_definitions()):
            for child in fields.children(fields.find(schema_of(definition), parent)):
                if child.name.startswith(begun):
                    found[".".join(part for part in (kind, parent, child.name) if part)] = None
    except (click.UsageError, fields.NoSuchFieldError):
        return []
    return [CompletionItem(path) for path in found]


@click.command()
@click.argument("field", metavar="KIND[.FIELD]...", shell_complete=_complete)
@click.option(
    "--api-version", metavar="GROUP/VERSION", help="API version, if two groups have a kind of this name."
)
@click.option("--recursive", is_flag=True, help="Also show nested fields.")
@options.output("text", "json", help="Output format.")
def explain_field(field: str, api_version: str | None, recursive: bool, output: str) -> None:
    """Explain a kind or one of its fields: description, type, default, bounds and nested fields.

    Works without a server, also for kinds of the Gateway API. KIND is any name that kubectl accepts:
    ModelRoute, modelroutes, mr.

    Example: headgate explain-field modelroute.spec.rules.targetModels.weight
    """
    kind, _, path = field.partition(".")
    definition, others = _one(definitions_named(kind, explained_definitions()), api_version)
    try:
        found = fields.find(schema_of(definition), path)
    except fields.NoSuchFieldError as error:
        close = [f"{kind}.{candidate}" for candidate in error.close]
        hint = f" Did you mean {' or '.join(close)}?" if close else ""
        raise click.UsageError(f"{kind_of(definition)}: {error}.{hint}") from error
    inside = list(fields.below(found) if recursive else fields.children(found))
    if output == "json":
        answer = _plain(found) | {"fields": [_plain(child) for child in inside]}
        head = {"kind": kind_of(definition), "apiVersion": api_version_of(definition)}
        click.echo(json.dumps(head | answer, indent=2, ensure_ascii=False))
    else:
        click.echo(_page(definition, others, found, inside))


def _one(definitions: list[Definition], api_version: str | None) -> tuple[Definition, list[str]]:
    """The selected definition, and the API versions of other kinds with the same name."""
    versions = [api_version_of(definition) for definition in definitions]
    if api_version is None:
        return definitions[0], versions[1:]
    if api_version not in versions:
        raise click.UsageError(
            f"{kind_of(definitions[0])} is not in {api_version!r}; it is in {' and '.join(versions)}."
        )
    return definitions[versions.index(api_version)], []


def _plain(field: Field) -> dict[str, Any]:
    shown = {"path": field.path, "type": field.type, "required": field.required}
    if "default" in field.schema:
        shown["default"] = field.schema["default"]
    return shown | {"bounds": field.bounds, "rules": field.rules, "description": field.description}


def _page(definition: Definition, others: list[str], field: Field, inside: list[Field]) -> str:
    lines = [f"KIND:     {kind_of(definition)}", f"VERSION:  {api_version_of(definition)}"]
    lines += [f"          (another kind with this name: --api-version {version})" for version in others]
    if field.path:
        lines += ["", f"FIELD:    {field.path} <{field.type}>", *_facts(field, "          ")]
    lines += ["", "DESCRIPTION:", _wrapped(field.description or "No description.", "    ")]
    if field.rules:
        lines += ["", "RULES:", *(_wrapped(rule, "    ") for rule in field.rules)]
    if inside:
        lines += ["", "FIELDS:"]
    depth = inside[0].path.count(".") if inside else 0
    for child in inside:
        indent = "  " * (1 + child.path.count(".") - depth)
        lines.append(f"{indent}{child.name} <{child.type}>")
        lines += _facts(child, f"{indent}  ")
        lines += [_wrapped(child.description, f"{indent}  ")] if child.description else []
    return "\n".join(lines)


def _facts(field: Field, indent: str) -> list[str]:
    facts = ["required"] if field.required and "default" not in field.schema else []
    if "default" in field.schema:
        facts.append(f"default: {json.dumps(field.schema['default'], ensure_ascii=False)}")
    facts += [bounds] if (bounds := fields.in_words(field)) else []
    return [f"{indent}{'; '.join(facts)}"] if facts else []


def _wrapped(text: str, indent: str) -> str:
    return click.wrap_text(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent, preserve_paragraphs=True
    )
