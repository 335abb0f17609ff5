"""Settings of the controller that show in the objects of every Model, and of the sidecar of one backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import msgspec

from headgate.api.containers import EnvVar
from headgate.engines import flags
from headgate.engines.launch import POD_IP

RUNTIME_PORT: Final = 8100
METRICS_PATH: Final = "/metrics"


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the objects of Models contain besides the Model's own fields."""

    headgate_image: str = "headgate"
    """Image of downloads and of the sidecar."""
    host_path_roots: tuple[str, ...] = ()
    """Directories of nodes that caches may be in; none for any."""


@dataclass(frozen=True, kw_only=True)
class RuntimeSettings:
    """How the sidecar of a backend runs, by variables of special names in its `env`."""

    port: int = RUNTIME_PORT
    engine_url: str = ""
    """Base URL of the engine; empty for the address of the Pod."""
    metrics_path: str = METRICS_PATH

    def url(self, engine_port: int) -> str:
        return self.engine_url or f"http://{POD_IP}:{engine_port}"


class InvalidVariableError(ValueError):
    """A variable of a special name cannot be used; `index` is its place in the list."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


def runtime_settings(env: Sequence[EnvVar]) -> RuntimeSettings:
    """The settings in the variables of a backend. Raises InvalidVariableError."""
    found: dict[str, str] = {}
    port = RUNTIME_PORT
    for index, each in enumerate(env):
        if each.name not in ("RUNTIME_PORT", "RUNTIME_URL", "RUNTIME_METRICS_PATH"):
            continue
        if each.value_from is not None:
            raise InvalidVariableError(index, f"{each.name} must have a value, and not valueFrom")
        value = each.value or ""
        found[each.name] = value
        if each.name == "RUNTIME_PORT":
            number = flags.integer(value)
            if number is None or not 0 < number < 65536:
                raise InvalidVariableError(index, f"RUNTIME_PORT is {flags.shown(value)}, which is no port")
            port = number
        elif value and not (_is_url(value) if each.name == "RUNTIME_URL" else _is_path(value)):
            like = "http://localhost:8000" if each.name == "RUNTIME_URL" else METRICS_PATH
            raise InvalidVariableError(
                index, f"{each.name} is {flags.shown(value)}; it must be like {like}, without escapes"
            )
    path = found.get("RUNTIME_METRICS_PATH") or METRICS_PATH
    return RuntimeSettings(
        port=port,
        engine_url=found.get("RUNTIME_URL", ""),
        metrics_path=path if path.startswith("/") else f"/{path}",
    )


def _is_url(text: str) -> bool:
    """Whether the sidecar takes it for the URL of an engine."""
    try:
        parts = urlsplit(text)
        is_whole = parts.port != 0 and bool(parts.hostname)
    except ValueError:
        return False
    is_plain = not (parts.query or parts.fragment or parts.username)
    return _is_path(text) and parts.scheme == "http" and is_whole and is_plain


def _is_path(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text
