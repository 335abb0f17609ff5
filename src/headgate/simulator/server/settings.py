"""Settings of one simulated server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headgate.simulator.model import EngineConfig, FaultSchedule
from headgate.simulator.server.adapters import Adapter
from headgate.simulator.server.failures.settings import FailureSettings
from headgate.simulator.server.metrics.page import generations

# Settings of `--kv-events-config`, under vLLM's names.
EventForm = Literal["map", "array"]


class KvEventsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where and how events are published. `from_json` parses it."""

    enable_kv_cache_events: bool = True
    publisher: Literal["zmq", "null"] = "zmq"
    endpoint: str = "tcp://*:5557"
    """Address for subscribers; data-parallel rank i uses the port plus i."""
    connect: bool = False
    """Whether a subscriber listens there, and the engine connects to it."""
    replay_endpoint: str | None = None
    """Address for replay requests; rank i uses the port plus i."""
    topic: str = "kv@{address}@{model}"
    """`{address}` is where the server listens, `{model}` its first name."""
    buffer_steps: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Batches kept for replay."""
    hwm: Annotated[int, Meta(ge=0)] = 100_000
    """Batches queued for a slow subscriber; it misses further ones."""
    max_queue_size: Annotated[int, Meta(ge=0)] = 100_000
    """Accepted for compatibility with vLLM; nothing is queued here."""
    form: EventForm = "map"
    """Events as maps, as in current vLLM, or as arrays, as in earlier versions."""
    batch_events: Annotated[int, Meta(ge=1, le=100_000)] = 1
    """Events to collect before a batch is sent; 1 sends one batch each step, as vLLM does."""
    batch_delay_s: Annotated[float, Meta(ge=0)] = 1.0
    """Maximum time that events wait for a batch to fill."""

    def __post_init__(self) -> None:
        for name in ("endpoint", "replay_endpoint"):
            value = getattr(self, name)
            if value is not None and not value.startswith(("tcp://", "ipc://", "inproc://")):
                raise ValueError(f"{name}: must be an address of ZMQ such as tcp://*:5557, got {value!r}")

    @property
    def enabled(self) -> bool:
        return self.enable_kv_cache_events and self.publisher == "zmq"


def read_kv_events(text: str) -> KvEventsConfig:
    """Parse the settings; raises ValueError that names the field."""
    try:
        return msgspec.json.decode(text, type=KvEventsConfig)
    except msgspec.ValidationError as error:
        raise ValueError(f"--kv-events-config: {error}") from error
    except msgspec.DecodeError as error:
        raise ValueError(
            f'--kv-events-config: is not JSON such as {{"endpoint": "tcp://*:5557"}}: {error}'
        ) from error


Api = Literal["vllm", "sglang", "trtllm"]
Role = Literal["both", "prefill", "decode"]


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The engine behind the server, and how the server presents it."""

    engine: EngineConfig
    models: tuple[str, ...] = ("simulated",)
    """Served names; the first one labels the metrics."""
    seed: int = 0
    id_seed: int | None = None
    """Seed of a reproducible sequence of response IDs; None makes them random."""
    max_tokens_default: int = 64
    """Output tokens of a request that sets no limit; it then ends by itself (`stop`)."""
    startup_s: float = 0.0
    """How long the server reports that it is still loading."""
    drain_s: int = 2
    """How long requests in flight may continue after the server was told to stop."""
    max_body_bytes: int = 4 * 1024 * 1024
    body_timeout_s: float = 30.0
    """How long a client may take to send a body."""
    pod_name: str | None = None
    pod_namespace: str | None = None
    sleep_mode: bool = False
    """Enable POST /sleep."""
    failures: FailureSettings = FailureSettings()
    """Failure settings."""
    api: Api = "vllm"
    """Engine whose metrics and prefill/decode protocol to simulate."""
    metrics_generation: str = "new"
    """Metric names of earlier versions of the engine (`old`), or the current ones."""
    data_parallel_size: int = 1
    """Number of engines behind this server."""
    data_parallel_rank: int = 0
    """Rank of the first of them, if other servers have further ones."""
    lora_modules: tuple[Adapter, ...] = ()
    """Adapters loaded at startup."""
    runtime_adapters: bool = True
    """Whether adapters can be loaded and unloaded while the engine runs."""
    checks_paths: bool = False
    """Whether an adapter that is loaded while the engine runs must exist, if its path is absolute."""
    kv_events: KvEventsConfig | None = None
    """Where prefix cache events are published."""
    role: Role = "both"
    """Role of this engine in prefill/decode pairs."""
    check_protocol: bool = False
    """Whether to reject requests that deviate from the prefill/decode protocol."""
    side_channel_host: str | None = None
    """Address where other engines reach this one, if not the one it listens on."""
    kv_store: str | None = None
    """A file through which engines of one machine find each other's prompts by content."""
    kv_hold_s: float = 480.0
    """How long a computed prompt is kept for another engine to read; vLLM's default."""
    bootstrap_timeout_s: float = 300.0
    """How long one side of a bootstrap room waits for the other; SGLang's default."""
    hash_seed: str = ""
    """Seed of the block hashes."""
    ssl_certfile: str | None = None
    """PEM certificate to serve TLS with; reloaded when it changes."""
    ssl_keyfile: str | None = None
    """Its key."""
    self_signed_certs: bool = False
    """Whether to serve TLS with a generated certificate."""

    @property
    def speaks_tls(self) -> bool:
        return self.self_signed_certs or self.ssl_certfile is not None

    def __post_init__(self) -> None:
        FaultSchedule.from_objects(self.failures.faults)
        problems = [
            *self._of_names(),
            *self._out_of_range(),
            *self._of_files(),
        ]
        if problems:
            raise ValueError("; ".join(problems))
        self.failures.check()
        self.failures.latencies().apply(self.engine)

    def _of_names(self) -> Iterator[str]:
        if not self.models or not all(self.models):
            yield "models: at least one served name is needed, and none may be empty"
        if self.metrics_generation not in generations(self.api):
            told = " or ".join(generations(self.api))
            yield f"metrics_generation: {self.api} has {told}, not {self.metrics_generation}"
        taken = [*self.models, *(adapter.name for adapter in self.lora_modules)]
        if len(set(taken)) < len(taken):
            yield f"lora_modules: names of models and adapters must differ, got {taken}"

    def _out_of_range(self) -> Iterator[str]:
        if not 1 <= self.data_parallel_size <= 64:
            yield f"data_parallel_size: must be 1 to 64, got {self.data_parallel_size}"
        if not 0 <= self.data_parallel_rank < 64:
            yield f"data_parallel_rank: must be 0 to 63, got {self.data_parallel_rank}"

    def _of_files(self) -> Iterator[str]:
        if (self.ssl_certfile is None) != (self.ssl_keyfile is None):
            given, lacks = ("ssl_certfile", "ssl_keyfile")[:: 1 if self.ssl_certfile else -1]
            yield f"{given}: needs {lacks} too"
        if self.self_signed_certs and (self.ssl_certfile or self.ssl_keyfile):
            yield "self_signed_certs: leave it out where ssl_certfile is given, or the other way round"
