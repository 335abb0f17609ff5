"""Write the Model of a command line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headgate.api import kthena_registry
from headgate.cli.model.sources import LocalClaim, Source, parse, parse_cache

__all__ = ["ENGINES", "Wanted", "WantedError", "adapters", "cache", "model_of", "secrets_in", "variables"]

ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "mindie": "MindIE"}
"""Types of backends by the name on the command line."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_LONGEST_NAME = 63
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*\Z")
_SECRET = re.compile(r"(?i)(^|_)(token|secret|password|secret_access_key|api_key|credentials)$")


class WantedError(ValueError):
    """The options contradict each other; the message names the option, its value and the fix."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the command line asks for."""

    name: str
    namespace: str | None
    source: Source
    engine: str
    replicas: int
    adapters: Mapping[str, Source] = field(default_factory=dict)
    cache: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None
    gpus: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_name("--name", self.name, "the model")
        for adapter in self.adapters:
            _check_name("--adapter", adapter, "the adapter")
            if adapter == self.name:
                raise WantedError(
                    f"--adapter {adapter}=...: the model has this name; give one of them another name"
                )
        for variable in self.env:
            if not _VARIABLE.match(variable):
                raise WantedError(f"--env {variable}=...: not a name of an environment variable")

    @property
    def claims(self) -> list[LocalClaim]:
        """Directories of this machine, of the model and of adapters."""
        sources = (self.source, *self.adapters.values())
        return [each.local for each in sources if each.local is not None]


def _check_name(option: str, name: str, what: str) -> None:
    if not _NAME.match(name) or len(name) > _LONGEST_NAME:
        raise WantedError(
            f"{option} {name!r}: {what} must have 1 to {_LONGEST_NAME} lower-case letters, digits and '-', "
            "and begin and end with a letter or digit"
        )


def model_of(wanted: Wanted) -> dict[str, Any]:
    """The manifest of a Model with one backend."""
    worker: dict[str, Any] = {"type": "server"}
    if wanted.image:
        worker["image"] = wanted.image
    if wanted.gpus:
        worker["resources"] = {"limits": {"nvidia.com/gpu": str(wanted.gpus)}}
    if wanted.config:
        worker["config"] = dict(wanted.config)
    backend: dict[str, Any] = {
        "name": wanted.engine,
        "type": ENGINES[wanted.engine],
        "modelURI": wanted.source.uri,
    }
    if wanted.cache:
        backend["cacheURI"] = wanted.cache
    if wanted.env:
        backend["env"] = [{"name": name, "value": value} for name, value in wanted.env.items()]
    backend |= {"minReplicas": wanted.replicas, "maxReplicas": wanted.replicas, "workers": [worker]}
    if wanted.adapters:
        backend["loraAdapters"] = [
            {"name": name, "artifactURL": source.uri} for name, source in wanted.adapters.items()
        ]
    metadata = {"name": wanted.name} | ({"namespace": wanted.namespace} if wanted.namespace else {})
    return {
        "apiVersion": f"{kthena_registry.GROUP}/{kthena_registry.VERSION}",
        "kind": "Model",
        "metadata": metadata,
        "spec": {"backends": [backend]},
    }


def adapters(texts: Sequence[str]) -> dict[str, Source]:
    """The adapters of --adapter options. Raises WantedError and SourceError."""
    return {name: parse(uri) for name, uri in _pairs("--adapter", texts).items()}


def variables(texts: Sequence[str]) -> dict[str, str]:
    """The variables of --env options. Raises WantedError."""
    return _pairs("--env", texts)


def secrets_in(env: Mapping[str, str]) -> list[str]:
    """The variables that are secrets by their names."""
    return [name for name, value in env.items() if value and _SECRET.search(name)]


def cache(text: str | None, source: str, *, has_machine: bool) -> str | None:
    """The cacheURI of --cache; by default, downloads of a machine are kept in the user's cache.

    Raises SourceError.
    """
    if text == "none":
        return None
    if text is not None:
        return parse_cache(text)
    if not has_machine or not source.startswith(("hf://", "s3://")):
        return None
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return parse_cache(f"{home}/headgate/models")


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or (option == "--adapter" and not value):
            raise WantedError(f"{option} {text!r}: write {option} NAME=VALUE")
        if name in found:
            raise WantedError(f"{option} {name}=...: given twice")
        found[name] = value
    return found
