"""From a request whose tokens are estimated to one whose tokens are the render service's, if there is one."""

from collections.abc import Callable
from typing import Any

import msgspec

from headgate.simulator.model import Tokens
from headgate.simulator.server.bodies.multimodal import place
from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.rendering.service import RenderService

Form = Callable[[bytes], dict[str, Any]]
"""From a body to what is rendered of it."""


class Prompts:
    """What handlers read prompts by."""

    def __init__(self, service: RenderService | None, require_model: Callable[[str | None], None]) -> None:
        """Without a service all stays as it was read."""
        self.service = service
        self._require_model = require_model

    async def conversation(
        self, exchange: Exchange, read: Callable[[bytes], Generation], form: Form
    ) -> Generation:
        """The body of an exchange, of an API of conversations."""
        body = await exchange.read_body()
        generation = read(body)
        if self.service is None:
            return generation
        self._require_model(generation.model)
        asking = self.service.chat(form(body), items=bool(generation.items))
        prompt, features = await exchange.unless_gone(asking)
        prompt, items = (prompt, ()) if features is None else place(prompt, features)
        return msgspec.structs.replace(generation, prompts=(prompt,), items=items)

    async def completion(self, exchange: Exchange, read: Callable[[bytes], Generation]) -> Generation:
        """The body of an exchange that has texts, or ids, which stay."""
        generation = read(await exchange.read_body())
        prompts = await self.texts(exchange, generation.model, generation.prompts, generation.said)
        return msgspec.structs.replace(generation, prompts=prompts)

    async def texts(
        self, exchange: Exchange, model: str, prompts: tuple[Tokens, ...], texts: tuple[str, ...]
    ) -> tuple[Tokens, ...]:
        """The prompts with the tokens of their texts; one with an empty text was given in ids."""
        asked = list(filter(None, texts))
        if self.service is None or not asked:
            return prompts
        self._require_model(model)
        rendered = iter(await exchange.unless_gone(self.service.texts(asked)))
        return tuple(next(rendered) if text else prompt for prompt, text in zip(prompts, texts, strict=True))
