"""Content negotiation from the Accept header; results are cached, because each client sends only a few."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from headgate.apiserver import errors
from headgate.apiserver.discovery import AGGREGATED

FormName = Literal["Object", "PartialObjectMetadata", "Table"]
_FORMS: dict[str, FormName] = {
    "Table": "Table",
    "PartialObjectMetadata": "PartialObjectMetadata",
    "PartialObjectMetadataList": "PartialObjectMetadata",
}
_DISCOVERY = "APIGroupDiscoveryList"
_META = "meta.k8s.io"
_META_VERSIONS = ("v1", "v1beta1")


@dataclass(frozen=True)
class Accepted:
    """One entry of an Accept header: media type and parameters."""

    media: str
    parameters: dict[str, str]


def accepted(header: str) -> list[Accepted]:
    """The entries in the client's order (kubectl sends no weights)."""
    entries = []
    for part in header.split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        pairs = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
        if media:
            entries.append(Accepted(media.lower(), pairs))
    return entries


MAX_ACCEPT = 4096
"""Characters of an Accept header that are used; results for such headers are cached."""


def accept(headers: Mapping[str, str]) -> str:
    """The Accept header of the client."""
    return headers.get("accept", "")[:MAX_ACCEPT]


_JSON = ("application/json", "application/*", "*/*")
_YAML = "application/yaml"


@functools.lru_cache(maxsize=256)
def check_taken(header: str) -> None:
    """406 unless the client accepts JSON or YAML, in a form that is known."""
    wanted = accepted(header)
    if wanted and not any(entry.media in (*_JSON, _YAML) and _is_known(entry) for entry in wanted):
        raise errors.not_acceptable(("application/json", _YAML))


def _is_known(entry: Accepted) -> bool:
    """Whether objects or discovery have the form that an entry asks for, if any."""
    wanted, version = entry.parameters.get("as"), entry.parameters.get("v", "")
    if wanted == _DISCOVERY:
        return version in AGGREGATED
    return wanted is None or (wanted in _FORMS and version in ("", *_META_VERSIONS))


@functools.lru_cache(maxsize=256)
def wants_yaml(header: str) -> bool:
    """Whether the client prefers YAML to JSON."""
    media = (entry.media for entry in accepted(header))
    return next((each == _YAML for each in media if each in (*_JSON, _YAML)), False)


@functools.lru_cache(maxsize=256)
def form(header: str) -> tuple[FormName, str]:
    """The first supported format for objects, and its meta.k8s.io version."""
    for entry in accepted(header):
        if entry.media not in (*_JSON, _YAML):
            continue
        wanted, version = entry.parameters.get("as"), entry.parameters.get("v", "v1")
        if wanted is None:
            return "Object", "v1"
        if (found := _FORMS.get(wanted)) and entry.parameters.get("g") == _META and version in _META_VERSIONS:
            return found, version
    return "Object", "v1"


@functools.lru_cache(maxsize=256)
def aggregated_version(header: str) -> str | None:
    """The version of aggregated discovery to respond with; None for legacy discovery."""
    for entry in accepted(header):
        if entry.media != "application/json":
            continue
        wanted = entry.parameters.get("as")
        if wanted is None:
            return None
        if wanted == _DISCOVERY and entry.parameters.get("v") in AGGREGATED:
            return entry.parameters["v"]
    return None
