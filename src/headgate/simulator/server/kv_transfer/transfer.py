"""What a request takes part in, seen by the one who generates: three moments, in which most do nothing."""

from collections.abc import Callable
from typing import Any

import msgspec
import xxhash

from headgate.simulator.model import Tokens


class Computed(msgspec.Struct, frozen=True):
    """A prompt whose KV cache is ready on some engine."""

    digest: str
    tokens: int


class Transfer:
    """A request whose KV cache stays where it is computed."""

    waits = False
    """Whether there is something to wait for before the engine gets the request."""

    keeps_kv = False
    """Whether the engine keeps its blocks for another one."""

    async def arrive(self) -> tuple[int, ...]:
        """Before the engine gets the request: tokens of each prompt whose KV cache comes from elsewhere."""
        return ()

    def computed(self, answer_id: str, release: Callable[[], None]) -> dict[str, Any] | None:
        """The engine is done: what the answer has as `kv_transfer_params`. `release` frees kept blocks."""
        return None

    def close(self) -> None:
        """The request is over, however it ended."""


def digest_of(prompt: Tokens) -> str:
    """Names the content of a prompt, so that the wrong cache is not taken for the right one."""
    return xxhash.xxh3_64_hexdigest(prompt.tobytes())
