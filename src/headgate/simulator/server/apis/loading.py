"""vLLM's way to load and unload adapters while the server runs."""

from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.simulator.server.adapters import Adapter
from headgate.simulator.server.bodies import decode
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.instance import Instance

PLAIN = b"text/plain; charset=utf-8"
Name = Annotated[str, Meta(max_length=253)]


class LoadBody(msgspec.Struct, frozen=True):
    lora_name: Name = ""
    lora_path: Annotated[str, Meta(max_length=4096)] = ""
    base_model_name: str | None = None
    load_inplace: bool = False


class UnloadBody(msgspec.Struct, frozen=True):
    lora_name: Name = ""
    lora_int_id: int | None = None


_load = msgspec.json.Decoder(LoadBody)
_unload = msgspec.json.Decoder(UnloadBody)


class Loading:
    """Handlers for adapters."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    async def load(self, exchange: Exchange) -> None:
        body = decode(_load, await exchange.read_body())
        if not body.lora_name or not body.lora_path:
            raise ApiError(400, "Both 'lora_name' and 'lora_path' must be provided.", kind="InvalidUserInput")
        adapter = Adapter(name=body.lora_name, path=body.lora_path, base_model_name=body.base_model_name)
        self._instance.adapters.load(adapter, in_place=body.load_inplace)
        await _say(exchange, f"Success: LoRA adapter '{adapter.name}' added successfully.")

    async def unload(self, exchange: Exchange) -> None:
        body = decode(_unload, await exchange.read_body())
        if not body.lora_name:
            message = "'lora_name' needs to be provided to unload a LoRA adapter."
            raise ApiError(400, message, kind="InvalidUserInput")
        self._instance.adapters.unload(body.lora_name)
        await _say(exchange, f"Success: LoRA adapter '{body.lora_name}' removed successfully.")


async def _say(exchange: Exchange, text: str) -> None:
    await exchange.answer(text.encode(), content_type=PLAIN)
