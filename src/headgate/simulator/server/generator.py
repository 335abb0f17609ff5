"""The way of a request for text through the live engine, whichever API it came by."""

import asyncio
import os
import time

from headgate.simulator.model import FinishReason, QueueFullError, RefusedError, Tokens
from headgate.simulator.server.adapters import Adapters
from headgate.simulator.server.answers import DONE, Answer
from headgate.simulator.server.blocks import block_hashes
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.exchange import EVENT_STREAM, Exchange
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.kv_transfer import Transfer, Transfers
from headgate.simulator.server.live import Ask, Ticket
from headgate.simulator.server.ranks import Ranks
from headgate.simulator.server.settings import ServerSettings

STOPPED = ApiError(503, "The engine stopped before the answer was complete")


class Generator:
    """Takes a request in, waits for its tokens, and writes them as they come."""

    def __init__(
        self, settings: ServerSettings, ranks: Ranks, transfers: Transfers, adapters: Adapters
    ) -> None:
        self._settings = settings
        self._ranks = ranks
        self._adapters = adapters
        self._transfers = transfers
        self._ready_at_s = time.monotonic() + settings.startup_s

    def require_ready(self) -> None:
        """A 503 while the model is loading."""
        left_s = self._ready_at_s - time.monotonic()
        if left_s > 0:
            raise ApiError(503, f"The model is still loading, for another {left_s:.1f} s")

    def require_model(self, name: str | None) -> None:
        """A 404 for what is neither a served name nor an adapter; no name means the first."""
        if name is not None and name not in self._settings.models and name not in self._adapters:
            raise ApiError(404, f"The model `{name}` does not exist.", param="model")

    async def answer(self, exchange: Exchange, generation: Generation) -> None:
        """The whole of it, from the request that was read to the last byte of its answer."""
        self.require_model(generation.model)
        transfer = self._transfers.of(generation)
        try:
            received = await exchange.unless_gone(self._receive(transfer)) if transfer.waits else ()
            await self._run(exchange, generation, transfer, received)
        finally:
            transfer.close()

    async def _receive(self, transfer: Transfer) -> tuple[int, ...]:
        """Let the KV cache arrive that another engine computed: its tokens for each prompt."""
        tokens = await transfer.arrive()
        if tokens:
            await asyncio.sleep(sum(tokens) * self._settings.kv_transfer_s_per_token)
        return tokens

    async def _run(
        self, exchange: Exchange, generation: Generation, transfer: Transfer, received: tuple[int, ...]
    ) -> None:
        ticket = self._submit(generation, transfer, received, self._rank(exchange))
        answer_id = exchange.request_id or os.urandom(16).hex()
        try:
            answer = Answer(generation, ticket, answer_id=answer_id, seed=self._settings.seed)
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(self._cancel_on_disconnect(exchange, ticket))
                if generation.stream:
                    await _stream(exchange, generation, ticket, answer, transfer)
                else:
                    await _whole(exchange, ticket, answer, transfer, answer_id)
                watch.cancel()
        finally:
            ticket.cancel()

    async def _cancel_on_disconnect(self, exchange: Exchange, ticket: Ticket) -> None:
        await exchange.disconnected()
        ticket.cancel()

    def _rank(self, exchange: Exchange) -> int | None:
        """The data-parallel rank that a request asks for by vLLM's header."""
        given = exchange.header(b"x-data-parallel-rank")
        if not given:
            return None
        if not given.isdecimal() or int(given) >= self._settings.data_parallel_size:
            raise ApiError(400, f"X-data-parallel-rank: there is no rank {given!r}")
        return int(given)

    def _submit(
        self, generation: Generation, transfer: Transfer, received: tuple[int, ...], rank: int | None
    ) -> Ticket:
        tokens = received or (0,) * len(generation.prompts)
        sequences = [
            ask
            for prompt, here in zip(generation.prompts, tokens, strict=True)
            for ask in self._asks(generation, prompt, here, keeps_kv=transfer.keeps_kv)
        ]
        try:
            return self._ranks.submit(sequences, every_token=generation.stream, rank=rank)
        except QueueFullError as error:
            raise ApiError(429, str(error)) from error
        except RefusedError as error:
            raise ApiError(400, str(error)) from error

    def _asks(
        self, generation: Generation, prompt: Tokens, received_tokens: int, *, keeps_kv: bool
    ) -> list[Ask]:
        """The sequences of one prompt."""
        output_tokens, reason = self._output(generation, len(prompt))
        adapter = generation.model if generation.model in self._adapters else ""
        ask = Ask(
            prompt=prompt,
            blocks=block_hashes(prompt, self._settings.engine.block_size, adapter, generation.cache_salt),
            adapter=adapter,
            priority=generation.priority,
            received_tokens=received_tokens,
            keeps_kv=keeps_kv,
            output_tokens=output_tokens,
            finish_reason=reason,
        )
        return [ask] * generation.choices_per_prompt

    def _output(self, generation: Generation, prompt_tokens: int) -> tuple[int, FinishReason]:
        """How long the answer gets: as long as asked for, else its own length, within the context."""
        if generation.max_tokens is not None:
            return generation.max_tokens, "length"
        room = max(1, self._settings.engine.max_model_len - prompt_tokens)
        own = max(self._settings.max_tokens_default, generation.min_tokens)
        if generation.ignore_eos or room < own:
            return room, "length"
        return own, "stop"


async def _whole(
    exchange: Exchange, ticket: Ticket, answer: Answer, transfer: Transfer, answer_id: str
) -> None:
    while ticket.unfinished:
        await ticket.changed()
    if ticket.aborted:
        await exchange.answer(STOPPED.body(), status=STOPPED.status)
    else:
        await exchange.answer(answer.whole(transfer.computed(answer_id, ticket.release_kv)))


async def _stream(
    exchange: Exchange, generation: Generation, ticket: Ticket, answer: Answer, transfer: Transfer
) -> None:
    """One send for each token, as soon as its step ends."""
    await exchange.start(200, EVENT_STREAM)
    sent = [0] * len(ticket.choices)
    running = True
    while running:
        await ticket.changed()
        running = ticket.unfinished > 0
        for index, choice in enumerate(ticket.choices):
            while sent[index] < choice.emitted and not ticket.aborted:
                await exchange.write(answer.token_event(index, sent[index]))
                sent[index] += 1
    if ticket.aborted:
        await exchange.write(b"data: " + STOPPED.body() + b"\n\n")
    else:
        transfer.computed("", ticket.release_kv)
        if generation.include_usage:
            await exchange.write(answer.usage_event())
    await exchange.write(DONE, more=False)
