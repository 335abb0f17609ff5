"""The file of external providers: a mapping from their names to their settings."""

from __future__ import annotations

import re
import ssl
import urllib.parse
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import yaml

from headgate import bounded_yaml, private_files, routing
from headgate.api.fallbacks import is_provider_name
from headgate.routing.model_routes import UNITS_S
from headgate.routing.providers import Shape

MAX_BYTES: Final = 1 << 20
MAX_LEVELS: Final = 50
MAX_PROVIDERS: Final = 100
MAX_VALUES: Final = 20_000
"""With aliases expanded."""
MAX_AUTHORITIES_BYTES: Final = 1 << 20

_OPENAI_PREFIX: Final = "/v1"
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/")


_VARIABLE: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1 << 62)]


class KeySource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the key is: one of three places."""

    file: Text | None = None
    """A file that only its owner may read."""
    environment: Text | None = None
    """A variable of the gateway's environment."""
    secret: Text | None = None
    """NAMESPACE/NAME/ENTRY of a Secret."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tokens per unit of time for all requests to the provider together."""

    unit: str
    input_tokens: Count | None = None
    output_tokens: Count | None = None


class Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One provider, as the file has it."""

    url: Text
    shape: Shape
    models: Annotated[tuple[Text, ...], msgspec.Meta(min_length=1, max_length=100)]
    key: KeySource
    ca_file: Text | None = None
    timeout_s: Annotated[float, msgspec.Meta(ge=0.1, le=3600)] = 120.0
    limits: Limits | None = None


class ProviderFileError(ValueError):
    """The file cannot be used; the message names it, the provider, the field, and what is wrong."""

    def __init__(self, message: str, file: str = "") -> None:
        """`file`: another one that is the cause."""
        super().__init__(message)
        self.file = file


class Read(msgspec.Struct, frozen=True):
    """One provider, and where its key is."""

    provider: routing.Provider
    key: KeySource
    files: tuple[str, ...]
    """Further files that it was read from."""


def read(path: Path) -> list[Read]:
    """The providers. Raises ProviderFileError."""
    try:
        content = private_files.read(path, MAX_BYTES + 1)
    except OSError as error:
        raise ProviderFileError(f"{path}: {error.strerror or error}") from error
    if len(content) > MAX_BYTES:
        raise ProviderFileError(f"{path} has more than {MAX_BYTES} bytes")
    try:
        bounded_yaml.check(content, MAX_LEVELS, with_aliases=True)
        document = yaml.load(content, bounded_yaml.LOADER)  # noqa: S506 - it is a safe one
    except Exception as error:  # of any kind, for values that do not fit their tags
        problem = getattr(error, "problem", None) or "its syntax is wrong"  # no text, which may be a key
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark is not None else ""
        raise ProviderFileError(f"{path} is not YAML: {problem}{place}") from None
    if document is None:
        return []
    if not isinstance(document, dict):
        raise ProviderFileError(f"{path}: a mapping from names of providers to their settings is needed")
    if len(document) > MAX_PROVIDERS:
        raise ProviderFileError(f"{path} has more than {MAX_PROVIDERS} providers")
    if bounded_yaml.is_larger(document, MAX_VALUES):
        raise ProviderFileError(f"{path} has more than {MAX_VALUES} values, with its aliases written out")
    return [_read(path, name, each) for name, each in document.items()]


def problems(file: str | None) -> list[str]:
    """Why the file cannot be used; empty if it can, or if there is none."""
    try:
        if file is not None:
            read(Path(file))
    except ProviderFileError as error:
        return [str(error)]
    return []


def _read(path: Path, name: object, value: Any) -> Read:
    if not isinstance(name, str) or not is_provider_name(name):
        raise ProviderFileError(f"{path}: {str(name)[:64]!r}: names have lower-case letters, digits and '-'")
    place = f"{path}: {name}"
    try:
        written = msgspec.convert(value, Written)
    except msgspec.ValidationError as error:
        raise ProviderFileError(f"{place}: {error}") from None
    host, port, prefix = _address(written, place)
    return Read(
        routing.Provider(
            name=name,
            shape=written.shape,
            host=host,
            port=port,
            prefix=prefix,
            authorities=_authorities(written.ca_file, place),
            models=_models(written.models, place),
            timeout_s=written.timeout_s,
            limits=_limits(written.limits, place),
        ),
        _key_source(written.key, place),
        tuple(each for each in (written.ca_file, written.key.file) if each is not None),
    )


def _address(written: Written, place: str) -> tuple[str, int, str]:
    """Host, port and path of the URL."""
    try:
        url = urllib.parse.urlsplit(written.url)
        host, port = url.hostname or "", url.port
    except ValueError as error:
        raise ProviderFileError(f"{place}: url: {error}") from None
    if url.scheme != "https" or not host or not host.isascii() or port == 0:
        raise ProviderFileError(
            f"{place}: url: https:// and a host are needed: keys never travel in the clear"
        )
    if url.username is not None or url.password is not None or url.query or url.fragment:
        raise ProviderFileError(f"{place}: url: it must have no user, query or fragment: the key is in `key`")
    path = url.path.rstrip("/")
    if not _PLAIN.issuperset(path) or "//" in path or ".." in path:
        raise ProviderFileError(f"{place}: url: its path must have plain segments")
    if written.shape == "openai":
        return host, port or 443, path or _OPENAI_PREFIX
    return host, port or 443, path.removesuffix("/v1")


def _authorities(file: str | None, place: str) -> str:
    if file is None:
        return ""
    try:
        text = private_files.read(Path(file), MAX_AUTHORITIES_BYTES).decode("ascii")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or "it is not text"
        told = f"{place}: ca_file: {file} has no certificates in PEM form: {why}"
        raise ProviderFileError(told, file) from None
    return text


def _models(models: tuple[str, ...], place: str) -> tuple[str, ...]:
    for model in models:
        if model != model.strip() or "," in model or not model.isprintable():
            raise ProviderFileError(f"{place}: models: {model[:64]!r} cannot be named in an annotation")
    return tuple(dict.fromkeys(models))


def _limits(written: Limits | None, place: str) -> routing.TokenLimits | None:
    if written is None:
        return None
    if written.unit not in UNITS_S:
        raise ProviderFileError(
            f"{place}: limits.unit: {written.unit[:64]!r} is none of {', '.join(UNITS_S)}"
        )
    if written.input_tokens is None and written.output_tokens is None:
        raise ProviderFileError(f"{place}: limits: input_tokens or output_tokens is needed")
    return routing.TokenLimits(
        input=written.input_tokens,
        output=written.output_tokens,
        unit=written.unit,
        unit_s=UNITS_S[written.unit],
    )


def _key_source(key: KeySource, place: str) -> KeySource:
    if sum(each is not None for each in (key.file, key.environment, key.secret)) != 1:
        raise ProviderFileError(f"{place}: key: one of file, environment and secret is needed")
    if key.environment is not None and not _VARIABLE.fullmatch(key.environment):
        raise ProviderFileError(f"{place}: key.environment: the name of a variable is needed, not the key")
    if key.secret is not None and [bool(part) for part in key.secret.split("/")] != [True] * 3:
        raise ProviderFileError(f"{place}: key.secret: NAMESPACE/NAME/ENTRY is needed")
    return key
