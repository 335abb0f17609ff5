"""Serve a generation request on the live engine, independent of its API."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import count

from headgate.simulator.model import QueueFullError, RefusedError
from headgate.simulator.server.adapters import Adapters
from headgate.simulator.server.answers import Answer
from headgate.simulator.server.blocks import AnswerBlocks, block_hashes, rng_of
from headgate.simulator.server.errors import STOPPED, ApiError
from headgate.simulator.server.exchange import EVENT_STREAM, Exchange
from headgate.simulator.server.failures.settings import FailureSettings, drawn
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.kv_transfer import Transfer, Transfers
from headgate.simulator.server.live import Ask, Ticket
from headgate.simulator.server.ranks import Ranks
from headgate.simulator.server.script import Script, write
from headgate.simulator.server.settings import ServerSettings

Shape = Callable[[Generation, Ticket, Sequence[Script], str], Answer]
"""Creates the response writer of an API."""


class Generator:
    """Accepts a request, waits for its tokens, and writes them as they are generated."""

    def __init__(
        self,
        settings: ServerSettings,
        ranks: Ranks,
        transfers: Transfers,
        adapters: Adapters,
        ids: Ids,
    ) -> None:
        self._settings = settings
        self._ranks = ranks
        self._adapters = adapters
        self._transfers = transfers
        self.ids = ids
        self.tuning: Callable[[], FailureSettings] = lambda: settings.failures
        """The current settings that can change at run time."""
        self._ready_at_s = time.monotonic() + settings.startup_s

    def require_ready(self) -> None:
        """Raise a 503 while the model is loading."""
        left_s = self._ready_at_s - time.monotonic()
        if left_s > 0:
            raise ApiError(503, f"The model is still loading, for another {left_s:.1f} s")

    def require_model(self, name: str | None) -> None:
        """Raise a 404 for a name that is neither a served model nor an adapter; None is the first model."""
        if name is not None and name not in self._settings.models and name not in self._adapters:
            raise ApiError(404, f"The model `{name}` does not exist.", param="model")

    async def answer(self, exchange: Exchange, generation: Generation, shape: Shape) -> None:
        """Serve a parsed request until the last byte of its response."""
        self._require_awake(generation)
        transfer = self._transfers.of(generation)
        try:
            received: tuple[int, ...] = ()
            if transfer.waits:
                received = await exchange.unless_gone(self._receive(transfer, generation))
            scripts = self._scripts(generation)
            ticket = self._submit(exchange, generation, scripts, transfer, received)
            answer_id = exchange.request_id or self.ids.next()
            answer = shape(generation, ticket, scripts, answer_id)
            async with self._while_connected(exchange, ticket):
                if generation.stream:
                    await _stream(exchange, answer, transfer)
                else:
                    await _whole(exchange, answer, transfer)
        finally:
            transfer.close()

    async def _receive(self, transfer: Transfer, generation: Generation) -> tuple[int, ...]:
        """Wait for the KV cache that another engine computed: its tokens for each prompt."""
        tokens = await transfer.arrive()
        if tokens:
            rng = rng_of(generation.prompts[0], self._settings.seed, "time of the transfer")
            await asyncio.sleep(drawn(*self.tuning().transfer_s(sum(tokens)), rng))
        return tokens

    @contextlib.asynccontextmanager
    async def _while_connected(self, exchange: Exchange, ticket: Ticket) -> AsyncIterator[None]:
        """End the work when its client disconnects, and when the block ends for any reason."""
        watch = asyncio.ensure_future(self._cancel_on_disconnect(exchange, ticket))
        try:
            yield
        finally:
            ticket.cancel()
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def _cancel_on_disconnect(self, exchange: Exchange, ticket: Ticket) -> None:
        await exchange.disconnected()
        ticket.cancel()

    def _require_awake(self, generation: Generation) -> None:
        self.require_model(generation.model)
        if self._ranks.asleep:
            raise ApiError(503, "The engine is asleep; POST /wake_up wakes it")

    def _rank(self, exchange: Exchange) -> int | None:
        """The data-parallel rank requested with vLLM's header."""
        given = exchange.header(b"x-data-parallel-rank")
        if not given:
            return None
        first = self._settings.data_parallel_rank
        here = range(first, first + self._settings.data_parallel_size)
        if not given.isdecimal() or int(given) not in here:
            raise ApiError(400, f"X-data-parallel-rank: there is no rank {given!r}")
        return int(given)

    def _scripts(self, generation: Generation) -> list[Script]:
        """The scripts of all choices. At most 128, by the limits on bodies."""
        most = self._settings.engine.max_model_len
        return [
            write(
                self._settings.seed,
                self._settings.max_tokens_default,
                generation,
                index,
                max(1, most - len(prompt)),
            )
            for index, prompt in enumerate(
                prompt for prompt in generation.prompts for _ in range(generation.choices_per_prompt)
            )
        ]

    def _submit(
        self,
        exchange: Exchange,
        generation: Generation,
        scripts: Sequence[Script],
        transfer: Transfer,
        received: tuple[int, ...],
    ) -> Ticket:
        asks = self._asks(generation, scripts, received, keeps_kv=transfer.keeps_kv)
        rank = self._rank(exchange)
        try:
            return self._ranks.submit(asks, every_token=generation.stream, rank=rank)
        except QueueFullError as error:
            raise ApiError(429, str(error)) from error
        except RefusedError as error:
            raise ApiError(400, str(error)) from error

    def _asks(
        self,
        generation: Generation,
        scripts: Sequence[Script],
        received: tuple[int, ...],
        *,
        keeps_kv: bool,
    ) -> list[Ask]:
        """The sequences for the engine, one for each choice."""
        adapter = generation.model if generation.model in self._adapters else ""
        engine, salt = self._settings.engine, (adapter, generation.cache_salt, self._settings.hash_seed)
        asks = []
        for number, prompt in enumerate(generation.prompts):
            blocks = block_hashes(prompt, engine.block_size, *salt) if engine.prefix_cache else []
            first = number * generation.choices_per_prompt
            asks += [
                Ask(
                    prompt=prompt,
                    blocks=blocks,
                    answer_blocks=AnswerBlocks(prompt, blocks, script, engine.block_size, *salt)
                    if engine.prefix_cache and script.words_in_all
                    else None,
                    adapter=adapter,
                    priority=generation.priority,
                    received_tokens=received[number] if received else 0,
                    keeps_kv=keeps_kv,
                    output_tokens=script.tokens,
                    finish_reason=script.reason,
                )
                for script in scripts[first : first + generation.choices_per_prompt]
            ]
        return asks


async def _finished(ticket: Ticket) -> None:
    while ticket.unfinished:
        await ticket.changed()


async def _whole(exchange: Exchange, answer: Answer, transfer: Transfer) -> None:
    ticket = answer.ticket
    await _finished(ticket)
    if ticket.aborted:
        raise STOPPED
    await exchange.answer(answer.whole(transfer.computed(answer.answer_id, ticket.release_kv)))


async def _stream(exchange: Exchange, answer: Answer, transfer: Transfer) -> None:
    """One send for each token, as soon as its step ends."""
    ticket = answer.ticket
    await exchange.start(200, EVENT_STREAM)
    if opening := answer.start():
        await exchange.write(opening)
    sent = [0] * len(ticket.choices)
    running = True
    while running:
        await ticket.changed()
        running = ticket.unfinished > 0
        for index, choice in enumerate(ticket.choices):
            while sent[index] < choice.emitted and not ticket.aborted:
                if event := answer.token(index, sent[index]):
                    await exchange.write(event)
                sent[index] += 1
    if ticket.aborted:
        await exchange.require_up()
        await exchange.write(answer.failed(STOPPED), more=False)
    else:
        transfer.computed(answer.answer_id, ticket.release_kv)
        await exchange.write(answer.end(), more=False)


class Ids:
    """Random response IDs, or, with a seed, a reproducible sequence."""

    def __init__(self, seed: int | None, port: int) -> None:
        """Engines with the same seed have different IDs on different ports."""
        self._seed = seed
        self._port = port
        self._numbers = count()

    def next(self) -> str:
        if self._seed is None:
            return os.urandom(16).hex()
        return uuid.uuid5(uuid.NAMESPACE_OID, f"{self._seed}-{self._port}-{next(self._numbers)}").hex
