"""Handlers that load and unload adapters while the engine runs, by vLLM's API and by SGLang's."""

from __future__ import annotations

import os
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.simulator.server.adapters import Adapter
from headgate.simulator.server.bodies import decode
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.instance import Instance

PLAIN = b"text/plain; charset=utf-8"
NOT_FOUND = b'{"detail":"Not Found"}'
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
    """vLLM's API, which exists if the engine was started with VLLM_ALLOW_RUNTIME_LORA_UPDATING."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._exists = instance.settings.runtime_adapters and instance.settings.api == "vllm"

    async def load(self, exchange: Exchange) -> None:
        if not self._exists:
            await exchange.answer(NOT_FOUND, status=404)
            return
        body = decode(_load, await exchange.read_body())
        if not body.lora_name or not body.lora_path:
            raise ApiError(400, "Both 'lora_name' and 'lora_path' must be provided.", kind="InvalidUserInput")
        adapter = Adapter(name=body.lora_name, path=body.lora_path, base_model_name=body.base_model_name)
        if _is_missing(adapter, self._instance):
            message = f"Loading lora {adapter.name} failed: No adapter found for {adapter.path}"
            raise ApiError(404, message)
        self._instance.adapters.load(adapter, in_place=body.load_inplace)
        await _say(exchange, f"Success: LoRA adapter '{adapter.name}' added successfully.")

    async def unload(self, exchange: Exchange) -> None:
        if not self._exists:
            await exchange.answer(NOT_FOUND, status=404)
            return
        body = decode(_unload, await exchange.read_body())
        if not body.lora_name:
            message = "'lora_name' needs to be provided to unload a LoRA adapter."
            raise ApiError(400, message, kind="InvalidUserInput")
        self._instance.adapters.unload(body.lora_name)
        await _say(exchange, f"Success: LoRA adapter '{body.lora_name}' removed successfully.")


def _is_missing(adapter: Adapter, instance: Instance) -> bool:
    """Other paths than absolute ones are names at a hub."""
    is_local = instance.settings.checks_paths and adapter.path.startswith("/")
    try:
        return is_local and not os.path.isdir(adapter.path)
    except ValueError:  # a NUL character
        return True


async def _say(exchange: Exchange, text: str) -> None:
    await exchange.answer(text.encode(), content_type=PLAIN)


class SglangLoading:
    """SGLang's API, whose responses list the adapters."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._exists = instance.settings.api == "sglang"

    async def load(self, exchange: Exchange) -> None:
        if not self._exists:
            await exchange.answer(NOT_FOUND, status=404)
            return
        body = decode(_load, await exchange.read_body())
        problem = self._cannot_change()
        if not problem and not (body.lora_name and body.lora_path):
            problem = "lora_name and lora_path are needed"
        adapter = Adapter(name=body.lora_name, path=body.lora_path) if not problem else None
        if adapter is not None and _is_missing(adapter, self._instance):
            problem = f"Failed to load LoRA adapter {adapter.name}: no such directory: {adapter.path}"
        elif adapter is not None:
            try:
                self._instance.adapters.load(adapter)
            except ApiError as error:
                problem = str(error)
        await self._tell(exchange, problem)

    async def unload(self, exchange: Exchange) -> None:
        if not self._exists:
            await exchange.answer(NOT_FOUND, status=404)
            return
        body = decode(_unload, await exchange.read_body())
        problem = self._cannot_change()
        if not problem:
            try:
                self._instance.adapters.unload(body.lora_name)
            except ApiError as error:
                problem = str(error)
        await self._tell(exchange, problem)

    def _cannot_change(self) -> str:
        return "" if self._instance.settings.runtime_adapters else "LoRA is not enabled: see --enable-lora"

    async def _tell(self, exchange: Exchange, problem: str) -> None:
        content = {
            "success": not problem,
            "error_message": problem,
            "loaded_adapters": {adapter.name: adapter.path for adapter in self._instance.adapters},
        }
        await exchange.answer(msgspec.json.encode(content), status=400 if problem else 200)
