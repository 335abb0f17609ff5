"""The file of tenants: the same objects as in a cluster, one document each."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import msgspec
import yaml

from headgate import bounded_yaml, private_files
from headgate.api import Tenant
from headgate.kubeschema import schema, structural

MAX_BYTES = 16 * 1024 * 1024
MAX_LEVELS = 50
MAX_TENANTS = 10_000
MAX_VALUES = 1_000_000
"""With aliases expanded: a few lines of them could have any number, or contain themselves."""


class TenantFileError(ValueError):
    """The file cannot be used; the message names it, the object, the field, and what is wrong."""


def read(path: Path) -> dict[str, Tenant]:
    """The tenants by name. Raises TenantFileError."""
    try:
        content = private_files.read(path, MAX_BYTES + 1)
    except OSError as error:
        raise TenantFileError(f"{path}: {error.strerror or error}") from error
    if len(content) > MAX_BYTES:
        raise TenantFileError(f"{path} has more than {MAX_BYTES} bytes")
    try:
        bounded_yaml.check(content, MAX_LEVELS, with_aliases=True)
        documents = [each for each in yaml.load_all(content, _Loader) if each is not None]
    except Exception as error:  # of any kind, for values that do not fit their tags
        raise TenantFileError(f"{path} is not YAML: {error}") from error
    if bounded_yaml.is_larger(documents, MAX_VALUES):
        raise TenantFileError(f"{path}: its aliases expand to more than {MAX_VALUES} values: write them out")
    if len(documents) > MAX_TENANTS:
        raise TenantFileError(f"{path} has more than {MAX_TENANTS} tenants")
    found: dict[str, Tenant] = {}
    for number, document in enumerate(documents, 1):
        tenant = _tenant(document, f"{path}: document {number}")
        name = tenant.metadata.name
        if name in found:
            raise TenantFileError(f"{path}: document {number}: metadata.name: {name} is defined twice")
        found[name] = tenant
    return found


class _Loader(bounded_yaml.LOADER):  # type: ignore[misc]
    yaml_implicit_resolvers = bounded_yaml.WITHOUT_TIMES


def _tenant(document: Any, place: str) -> Tenant:
    resource = Tenant.resource
    if not isinstance(document, dict):
        raise TenantFileError(f"{place}: a {resource.kind} is needed")
    for field, wanted in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if document.get(field) != wanted:
            raise TenantFileError(f"{place}: {field}: {document.get(field)!r:.64} is not {wanted}")
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise TenantFileError(f"{place}: metadata.name: a name is needed")
    place = f"{place}: {resource.kind} {name}"
    unknown = structural.prune(_schema(), document)
    if unknown:
        raise TenantFileError(f"{place}: {unknown[0]}: there is no such field")
    structural.default(_schema(), document)
    errors = structural.validate(_schema(), document)
    if errors:
        raise TenantFileError(f"{place}: {'; '.join(error.message() for error in errors[:5])}")
    try:
        return msgspec.convert(document, Tenant)
    except msgspec.ValidationError as error:
        raise TenantFileError(f"{place}: {error}") from error


@functools.cache
def _schema() -> structural.Schema:
    return schema.structural(Tenant)
