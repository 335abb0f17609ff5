"""The file of external providers: a mapping from their names to their settings."""

from __future__ import annotations

import re
import ssl
import urllib.parse
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from headgate import bounded_yaml, private_files, routing
from headgate.api.fallbacks import is_provider_name
from headgate.dataplane.providers import fields
from headgate.dataplane.providers.fields import Report
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

_HOST: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?|[0-9a-f:.]*:[0-9a-f:.]*")
_ENDS: Final = ("/chat/completions", "/completions", "/embeddings", "/responses", "/messages")
_VARIABLE: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_OWN_PREFIX: Final = "HEADGATE_"

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

    unit: Literal["second", "minute", "hour", "day", "month"]
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


NEEDED: Final = {
    "": "a mapping with the settings of the provider is needed",
    "url": "an https:// URL is needed, such as https://api.openai.com/v1",
    "shape": "openai or anthropic is needed",
    "models": "a list of names is needed, at least one and at most 100",
    "key": "a mapping with one of file, environment and secret is needed, and not the key itself",
    "key.file": "the path of a file with the key is needed",
    "key.environment": "the name of a variable is needed, not the key",
    "key.secret": "NAMESPACE/NAME/ENTRY is needed",
    "ca_file": "the path of a file with certificates is needed",
    "timeout_s": "a number of seconds from 0.1 to 3600 is needed",
    "limits": "a mapping with unit, and with input_tokens, output_tokens or both is needed",
    "limits.unit": "one of second, minute, hour, day and month is needed",
    "limits.input_tokens": "a whole number from 1 on is needed",
    "limits.output_tokens": "a whole number from 1 on is needed",
}
"""What is told of a field that is missing or has a wrong value."""


class ProviderFileError(ValueError):
    """The file cannot be used; the message has all problems."""

    def __init__(self, problems: list[str], files: Iterable[str] = ()) -> None:
        """`problems`: each names the file, the provider, the field, and what is wrong. `files`: others that
        are the cause."""
        super().__init__("; ".join(problems))
        self.problems = problems
        self.files = tuple(files)


class Read(msgspec.Struct, frozen=True):
    """One provider, and where its key is."""

    provider: routing.Provider
    key: KeySource
    files: tuple[str, ...]
    """Further files that it was read from."""


class _Problems(list[str]):
    """All that is wrong with a file, and the other files that are the cause."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[str] = []

    def of(self, place: str) -> Report:
        """Adds problems of a provider, by the path of a field."""
        return lambda field, why: self.append(f"{place}: {field}: {why}" if field else f"{place}: {why}")


def read(path: Path) -> list[Read]:
    """The providers. Raises ProviderFileError."""
    try:
        content = private_files.read(path, MAX_BYTES + 1)
    except OSError as error:
        raise ProviderFileError([f"{path}: {error.strerror or error}"]) from error
    if len(content) > MAX_BYTES:
        raise ProviderFileError([f"{path} has more than {MAX_BYTES} bytes"])
    problems = _Problems()
    document = _document(path, content, problems)
    if document is None and not problems:
        return []
    found = []
    if not isinstance(document, dict):
        problems.append(f"{path}: a mapping from names of providers to their settings is needed")
    elif len(document) > MAX_PROVIDERS:
        problems.append(f"{path} has more than {MAX_PROVIDERS} providers")
    elif bounded_yaml.is_larger(document, MAX_VALUES):
        problems.append(f"{path} has more than {MAX_VALUES} values, with its aliases written out")
    else:
        found = [_read(path, name, each, problems) for name, each in document.items()]
    if problems:
        raise ProviderFileError(problems, problems.files)
    return [each for each in found if each is not None]


def problems(file: str | None) -> list[str]:
    """Why the file cannot be used; empty if it can, or if there is none."""
    try:
        if file is not None:
            read(Path(file))
    except ProviderFileError as error:
        return error.problems
    return []


def _document(path: Path, content: bytes, problems: _Problems) -> Any:
    try:
        bounded_yaml.check(content, MAX_LEVELS, with_aliases=True)
        loader = bounded_yaml.NotingLoader(content)
        try:
            document = loader.get_single_data()
        finally:
            loader.dispose()
    except Exception as error:  # of any kind, for values that do not fit their tags
        problem = getattr(error, "problem", None) or "its syntax is wrong"  # no text, which may be a key
        mark = getattr(error, "problem_mark", None)
        place = f" in line {mark.line + 1}" if mark is not None else ""
        raise ProviderFileError([f"{path} is not YAML: {problem}{place}"]) from None
    problems += [f"{path}: line {line}: {name[:64]!r} is there twice" for name, line in loader.repeated]
    return document


def _read(path: Path, name: object, value: object, problems: _Problems) -> Read | None:
    if not isinstance(name, str) or not is_provider_name(name):
        problems.append(f"{path}: {str(name)[:64]!r}: names have lower-case letters, digits and '-'")
        return None
    before = len(problems)
    report = problems.of(f"{path}: {name}")
    given = fields.read(Written, value, NEEDED, report)
    key, ca_file = given.get("key"), given.get("ca_file")
    host, port, prefix = _address(given.get("url"), given.get("shape"), report)
    models = _models(given.get("models", ()), report)
    authorities = _authorities(ca_file, problems, report)
    limits = _limits(given.get("limits"), report)
    if key is not None:
        _judge_key(key, report)
    if len(problems) > before:
        return None
    assert key is not None
    return Read(
        routing.Provider(
            name=name,
            shape=given["shape"],
            host=host,
            port=port,
            prefix=prefix,
            authorities=authorities,
            models=models,
            timeout_s=given["timeout_s"],
            limits=limits,
        ),
        key,
        tuple(each for each in (ca_file, key.file) if each is not None),
    )


def _address(text: str | None, shape: str | None, report: Report) -> tuple[str, int, str]:
    """Host, port and path of the URL. It is not repeated, as it may have a key."""
    if text is None:
        return "", 0, ""
    try:
        url = urllib.parse.urlsplit(text)
        host, port = url.hostname or "", url.port
    except ValueError as error:
        report("url", str(error))
        return "", 0, ""
    path = url.path.rstrip("/")
    if url.scheme != "https" or not _HOST.fullmatch(host) or port == 0:
        report("url", "https:// and a host are needed: keys never travel in the clear")
    if url.username is not None or url.password is not None or url.query or url.fragment:
        report("url", "it must have no user, query or fragment: the key is in `key`")
    if not _PLAIN.issuperset(path) or "//" in path or ".." in path:
        report("url", "its path must have plain segments")
    if end := next((each for each in _ENDS if path.endswith(each)), ""):
        report("url", f"{end} follows by itself: leave it out, as for SDKs of that API")
    if shape == "openai":
        return host, port or 443, path or _OPENAI_PREFIX
    return host, port or 443, path.removesuffix("/v1")


def _authorities(file: str | None, problems: _Problems, report: Report) -> str:
    if file is None:
        return ""
    try:
        text = private_files.read(Path(file), MAX_AUTHORITIES_BYTES).decode("ascii")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or "it is not text"
        report("ca_file", f"{file} has no certificates in PEM form: {why}")
        problems.files.append(file)
        return ""
    return text


def _models(models: tuple[str, ...], report: Report) -> tuple[str, ...]:
    for model in models:
        if model != model.strip() or "," in model or not model.isprintable():
            report("models", f"{model[:64]!r} cannot be named in an annotation")
    return tuple(dict.fromkeys(models))


def _limits(written: Limits | None, report: Report) -> routing.TokenLimits | None:
    if written is None:
        return None
    if written.input_tokens is None and written.output_tokens is None:
        report("limits", "input_tokens or output_tokens is needed")
    return routing.TokenLimits(
        input=written.input_tokens,
        output=written.output_tokens,
        unit=written.unit,
        unit_s=UNITS_S[written.unit],
    )


def _judge_key(key: KeySource, report: Report) -> None:
    if sum(each is not None for each in (key.file, key.environment, key.secret)) != 1:
        report("key", "one of file, environment and secret is needed")
    if key.environment is not None and not _VARIABLE.fullmatch(key.environment):
        report("key.environment", "the name of a variable is needed, not the key")
    elif key.environment is not None and key.environment.startswith(_OWN_PREFIX):
        report("key.environment", f"variables that begin with {_OWN_PREFIX} are settings of the gateway")
    if key.secret is not None and [bool(part) for part in key.secret.split("/")] != [True] * 3:
        report("key.secret", "NAMESPACE/NAME/ENTRY is needed")
