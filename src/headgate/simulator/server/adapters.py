"""The LoRA adapters that a server offers besides its base model, loaded and unloaded by vLLM's rules."""

from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.simulator.server.errors import ApiError

MAX_ADAPTERS = 10_000


class Adapter(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter as `--lora-modules` names it in JSON."""

    name: Annotated[str, Meta(min_length=1, max_length=253)]
    path: str
    base_model_name: str | None = None


def parse_module(text: str) -> Adapter:
    """Parse `name=path` or vLLM's JSON; raises ValueError."""
    if not text.startswith("{"):
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise ValueError(f"--lora-modules: {text!r} is neither name=path nor JSON with name and path")
        return Adapter(name=name, path=path)
    try:
        return msgspec.json.decode(text, type=Adapter)
    except msgspec.DecodeError as error:
        raise ValueError(f"--lora-modules: {error}") from error


class Adapters:
    """Adapters by name, in the order in which they were loaded. Each has a unique number, as in vLLM."""

    def __init__(self, modules: tuple[Adapter, ...], models: tuple[str, ...]) -> None:
        self._models = models
        self._loaded: dict[str, Adapter] = {}
        self._numbers: dict[str, int] = {}
        for adapter in modules:
            self.load(adapter)

    def __contains__(self, name: str) -> bool:
        return name in self._loaded

    def __iter__(self) -> Iterator[Adapter]:
        return iter(self._loaded.values())

    def number(self, name: str) -> int | None:
        return self._numbers.get(name)

    def load(self, adapter: Adapter, *, in_place: bool = False) -> None:
        name = adapter.name
        if name in self._models or (name in self._loaded and not in_place):
            raise ApiError(
                400,
                f"The lora adapter '{name}' has already been loaded. "
                "If you want to load the adapter in place, set 'load_inplace' to True.",
                kind="InvalidUserInput",
            )
        if len(self._loaded) >= MAX_ADAPTERS:
            raise ApiError(400, f"{MAX_ADAPTERS} adapters are loaded already", kind="InvalidUserInput")
        self._loaded[name] = adapter
        self._numbers.setdefault(name, len(self._numbers) + 1)

    def unload(self, name: str) -> None:
        if name not in self._loaded:
            raise ApiError(404, f"The lora adapter '{name}' cannot be found.")
        del self._loaded[name]
