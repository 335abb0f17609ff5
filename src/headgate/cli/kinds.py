"""Look up Headgate's kinds by the names that people use: ModelRoute, modelroutes, mr, or with the group."""

from __future__ import annotations

import difflib
from typing import Any

import click
from click.shell_completion import CompletionItem

from headgate import api

Definition = dict[str, Any]
"""A CustomResourceDefinition as a plain object."""


class UnknownKind(click.UsageError):
    """Headgate has no kind of that name; the message suggests similar ones."""

    def __init__(self, name: str, known: list[str]) -> None:
        lowered = {candidate.lower(): candidate for candidate in known}
        close = [
            lowered[match] for match in difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)
        ]
        hint = f"Did you mean {' or '.join(close)}?" if close else f"Kinds: {', '.join(known)}."
        super().__init__(f"Headgate has no kind {name!r}. {hint}")


def explained_definitions() -> list[Definition]:
    """The kinds that can be explained: Headgate's, and those of other projects that it reads."""
    return [*api.custom_definitions(), *api.borrowed_definitions()]


def definitions_named(name: str, definitions: list[Definition] | None = None) -> list[Definition]:
    """The definitions with that name; two if two groups have a kind of that name. Default: Headgate's own.

    Raises UnknownKind.
    """
    definitions = api.custom_definitions() if definitions is None else definitions
    found = [definition for definition in definitions if name.lower() in _names(definition)]
    if not found:
        raise UnknownKind(name, list(dict.fromkeys(kind_of(definition) for definition in definitions)))
    return found


def kind_of(definition: Definition) -> str:
    """The kind that a definition defines."""
    return str(definition["spec"]["names"]["kind"])


def api_version_of(definition: Definition) -> str:
    """Group and version, as manifests write them."""
    return f"{definition['spec']['group']}/{definition['spec']['versions'][0]['name']}"


def schema_of(definition: Definition) -> dict[str, Any]:
    """The structural schema of the kind."""
    schema: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _names(definition: Definition) -> set[str]:
    names = definition["spec"]["names"]
    given = {names["kind"], names["plural"], names["singular"], *names.get("shortNames", ())}
    given |= {definition["metadata"]["name"], f"{names['singular']}.{definition['spec']['group']}"}
    return {name.lower() for name in given}


def complete_kind(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Shell completion: kinds with this prefix, ignoring case."""
    kinds = {kind_of(definition): None for definition in api.custom_definitions()}
    return [CompletionItem(kind) for kind in kinds if kind.lower().startswith(incomplete.lower())]
