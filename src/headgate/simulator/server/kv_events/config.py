"""The settings of `--kv-events-config`, by vLLM's names."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

EventForm = Literal["map", "array"]


class KvEventsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where and how events are published. `from_json` reads it."""

    enable_kv_cache_events: bool = True
    publisher: Literal["zmq", "null"] = "zmq"
    endpoint: str = "tcp://*:5557"
    """Where subscribers connect; the port of data-parallel rank i is i higher."""
    connect: bool = False
    """Whether a subscriber listens there, and the engine connects to it."""
    replay_endpoint: str | None = None
    """Where who missed batches asks for them; i higher too."""
    topic: str = "kv@{address}@{model}"
    """`{address}` is where the server listens, `{model}` its first name."""
    buffer_steps: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Batches that can be asked for again."""
    hwm: Annotated[int, Meta(ge=0)] = 100_000
    """Batches that wait for a slow subscriber; it misses further ones."""
    max_queue_size: Annotated[int, Meta(ge=0)] = 100_000
    """Taken, since vLLM has it; nothing is queued here."""
    form: EventForm = "map"
    """Events as maps, as vLLM has them now, or as arrays, as it had before."""
    batch_events: Annotated[int, Meta(ge=1, le=100_000)] = 1
    """Events that a batch should have before it is sent; 1 sends one each step, as vLLM does."""
    batch_delay_s: Annotated[float, Meta(ge=0)] = 1.0
    """How long events wait at most for a batch to fill."""

    def __post_init__(self) -> None:
        for name in ("endpoint", "replay_endpoint"):
            value = getattr(self, name)
            if value is not None and not value.startswith(("tcp://", "ipc://", "inproc://")):
                raise ValueError(f"{name}: must be an address of ZMQ such as tcp://*:5557, got {value!r}")

    @property
    def enabled(self) -> bool:
        return self.enable_kv_cache_events and self.publisher == "zmq"


def from_json(text: str) -> KvEventsConfig:
    """Raises ValueError that names the field."""
    try:
        return msgspec.json.decode(text, type=KvEventsConfig)
    except msgspec.ValidationError as error:
        raise ValueError(f"--kv-events-config: {error}") from error
    except msgspec.DecodeError as error:
        raise ValueError(
            f'--kv-events-config: is not JSON such as {{"endpoint": "tcp://*:5557"}}: {error}'
        ) from error
