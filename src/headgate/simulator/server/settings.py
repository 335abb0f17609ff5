"""What one simulated server is told when it starts."""

import msgspec

from headgate.simulator.model import EngineConfig


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The engine behind the server, and how the server presents it."""

    engine: EngineConfig
    models: tuple[str, ...] = ("simulated",)
    """Served names; the first one labels the metrics."""
    seed: int = 0
    max_tokens_default: int = 64
    """How long an answer is whose request sets no limit; it then ends by itself (`stop`)."""
    startup_s: float = 0.0
    """How long the server says that it is still loading."""
    drain_s: int = 2
    """How long requests in flight may go on once the server was told to stop."""
    max_body_bytes: int = 4 * 1024 * 1024
    body_timeout_s: float = 30.0
    """How long a client may take to send a body."""
    pod_name: str | None = None

    def __post_init__(self) -> None:
        if not self.models or not all(self.models):
            raise ValueError("models: at least one served name is needed, and none may be empty")
