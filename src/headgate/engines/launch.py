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
PYTHON = "python3"
"""That of the engine's image, in the directory that the image sets. It may be too old for the option -P."""
NO_TLS = "must not be set: the gateway, the sidecar and probes reach engines of Models by HTTP"
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


class Program(NamedTuple):
    """What a container runs."""

    command: tuple[str, ...]
    args: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What one worker of a backend is to run."""

    weights: str
    """Directory with the weights."""
    name: str
    """The name that the model is served by, whatever else it is called."""
    config: Mapping[str, object] = field(default_factory=dict)
    """Flags that the user gave, by name without dashes: JSON values."""
    role: Role = "server"
    adapters: Mapping[str, str] = field(default_factory=dict)
    """Directories of the adapters that are loaded at start, by name."""
    change_adapters: bool = False
    """Whether adapters are loaded and unloaded while the engine runs."""
    pods: int = 1
    """Pods that make up the worker."""
    devices: int = 0
    """Accelerators of each Pod; 0 if unknown."""
    transfer: object = None
    """The `kv-transfer-config` of another worker of the backend, for a worker without its own."""
    shares: Mapping[Role, int] = field(default_factory=dict)
    """Workers of each role in one replica of a disaggregated backend."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How the worker is started."""

    program: Program
    """Of its only Pod, or of the first of several."""
    follower: Program | None = None
    """Of the other Pods."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for every Pod, unless the user sets them."""
    port: int = DEFAULT_PORT
    health_port: int = 0
    """Port of `health_path`, if it is another one."""
    health_path: str = "/health"
    file: str = ""
    """Text of a file that the engine reads, at CONFIG_FILE."""
    takes_requests: bool = True
    """Whether the gateway sends requests to the worker."""
    reads_weights: bool = True
    """If not, nothing is downloaded for it."""
    connector: str = ""
    """How prefill and decode workers exchange the KV cache, as in `kvConnector` of a ModelServer."""
    problems: tuple[Problem, ...] = ()


CONFIG_FILE = "/etc/headgate/engine/config.json"

LEADER, GROUP_SIZE, INDEX = "$(LWS_LEADER_ADDRESS)", "$(LWS_GROUP_SIZE)", "$(LWS_WORKER_INDEX)"
"""Set in every Pod of a LeaderWorkerSet; Kubernetes replaces them in commands."""


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """How an engine runs in Pods."""

    engine: Engine
    image: str
    """Default image."""
    launch: Callable[[Setup], Launch]
    adapters: Callable[[Mapping[str, str]], Adapters]
    """When adapters can be loaded, given the environment that the user sets."""
    in_model_server: Literal["vLLM", "SGLang"] = "vLLM"
    """The `inferenceEngine` of its ModelServers. If it is another engine, a label of the Pods says so."""
    runs_in_groups: bool = True
    """Whether a worker can have several Pods."""
