"""How an engine is started in a Pod: what is asked of it, and the command that does it.

Each engine has a file with a function from a Setup to a Launch. Pure: the caller turns a Launch into
containers, and reports its problems at the worker's `config`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from headgate.engines.engine import Engine

Role: TypeAlias = Literal["server", "prefill", "decode", "controller", "coordinator"]

DEFAULT_PORT = 8000
BOOTSTRAP_PORT = 8998
POD_IP = "$(POD_IP)"
"""Kubernetes replaces it in commands by the address of the Pod, from its environment."""


class Adapters(enum.Enum):
    """When an engine can load LoRA adapters."""

    NEVER = enum.auto()
    AT_START = enum.auto()
    RUN_TIME = enum.auto()
    """While it runs, through its API."""


class Problem(NamedTuple):
    """Something that an engine cannot do."""

    key: str
    """The flag in the worker's config that is wrong; empty if it is the worker."""
    message: str


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What one worker of a backend is to run."""

    weights: str
    """Directory with the weights."""
    names: tuple[str, ...]
    """Names to serve the model by."""
    config: Mapping[str, object] = field(default_factory=dict)
    """Flags that the user gave, by name without dashes: JSON values."""
    role: Role = "server"
    with_adapters: bool = False
    """Whether adapters may come, at start or later."""
    adapters: Mapping[str, str] = field(default_factory=dict)
    """Directories of the adapters that are loaded at start, by name."""
    pods: int = 1
    """Pods that make up the worker."""
    devices: int = 0
    """Accelerators of each Pod; 0 if it is unknown."""
    disaggregated: bool = False
    """Whether prefill and decode run in different workers."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How the worker is started."""

    command: tuple[str, ...]
    """Program and arguments of its only Pod, or of the first of several."""
    followers: tuple[str, ...] = ()
    """The same for the other Pods."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for every Pod, unless the user sets them."""
    port: int = DEFAULT_PORT
    health_path: str = "/health"
    files: Mapping[str, str] = field(default_factory=dict)
    """Text of files that the engine reads, by name, in CONFIG_DIRECTORY."""
    connector: str = ""
    """How prefill and decode workers exchange the KV cache, as in `kvConnector` of a ModelServer."""
    bootstrap_port: int = 0
    """Port where decode workers ask a prefill worker for the KV cache; 0 if there is none."""
    problems: tuple[Problem, ...] = ()


CONFIG_DIRECTORY = "/etc/headgate/engine"


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """How an engine runs in Pods."""

    engine: Engine
    image: str
    """Default image."""
    launch: Callable[[Setup], Launch]
    adapters: Callable[[Mapping[str, str]], Adapters]
    """When adapters can be loaded, given the environment that the user sets."""
    shared_memory: bool = True
    """Whether its processes need more of /dev/shm than the usual 64 MiB."""


def cannot_load_adapters(environment: Mapping[str, str]) -> Adapters:
    return Adapters.NEVER
