"""Publish the events of the prefix cache over ZMQ, in vLLM's format.

Adds the token IDs to the model's events, encodes them with msgpack as vLLM's arrays or maps, and publishes
numbered batches; subscribers can request batches that they missed. Imported only where needed, because
importing ZMQ takes a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import zmq
import zmq.asyncio

from headgate.simulator.model import AllBlocksCleared, BlockRemoved, BlockStored, KvEvent, Tokens
from headgate.simulator.server.settings import EventForm, KvEventsConfig

_encoder = msgspec.msgpack.Encoder()


class Encoder:
    """Encodes batches; `adapters` maps an adapter's name to its number."""

    def __init__(self, form: EventForm, rank: int, adapters: Callable[[str], int | None]) -> None:
        self._form = form
        self._rank = rank
        self._adapters = adapters

    def event(self, event: KvEvent, tokens_of: Callable[[BlockStored], Tokens]) -> object:
        """One event, ready to encode."""
        fields = self._fields(event, tokens_of)
        return fields if self._form == "map" else list(fields.values())

    def batch(self, at_unix_s: float, events: Sequence[object]) -> bytes:
        """[time, events, data-parallel rank]."""
        return _encoder.encode((at_unix_s, events, self._rank))

    def _fields(self, event: KvEvent, tokens_of: Callable[[BlockStored], Tokens]) -> dict[str, object]:
        match event:
            case BlockStored():
                return {
                    "type": "BlockStored",
                    "block_hashes": event.hashes,
                    "parent_block_hash": event.parent,
                    "token_ids": tokens_of(event).tolist(),
                    "block_size": event.block_size,
                    "lora_id": self._adapters(event.adapter) if event.adapter else None,
                    "medium": event.medium,
                    "lora_name": event.adapter or None,
                }
            case BlockRemoved():
                return {"type": "BlockRemoved", "block_hashes": event.hashes, "medium": event.medium}
            case AllBlocksCleared():
                return {"type": "AllBlocksCleared"}


END_OF_REPLAY = (2**64 - 1).to_bytes(8, "big")


class Publisher:
    """Publishes one data-parallel rank's events. `publish` never waits; `serve_replays` runs until cancelled.

    A batch has three frames: topic, number (8 bytes, big-endian, from 0), msgpack. A replay request has an
    empty frame and the first number; the replies have an empty frame, number and msgpack of each batch that
    is still kept, and finally an empty frame, the number 2^64 - 1 and an empty frame.
    """

    def __init__(self, config: KvEventsConfig, encoder: Encoder, topic: str, rank: int) -> None:
        self._config = config
        self._encoder = encoder
        self._topic = topic.encode()
        self._rank = rank
        self._number = 0
        self._kept: deque[tuple[bytes, bytes]] = deque(maxlen=config.buffer_steps)
        self._pending: list[object] = []
        self._flush: asyncio.TimerHandle | None = None
        self._context = zmq.asyncio.Context()
        self._out = zmq.Socket(self._context, zmq.PUB)
        self._out.set_hwm(config.hwm)
        self._replays: zmq.asyncio.Socket | None = None

    def bind(self) -> None:
        """Bind the addresses. Raises OSError that names the address."""
        self._open(self._out, self._config.endpoint, connects=self._config.connect)
        if self._config.replay_endpoint is not None:
            self._replays = self._context.socket(zmq.ROUTER)
            self._open(self._replays, self._config.replay_endpoint, connects=False)

    def source(self) -> dict[str, object]:
        """This rank's entry of /kv_event_sources."""
        return {
            "data_parallel_rank": self._rank,
            "endpoint": _address(self._out),
            "replay_endpoint": _address(self._replays) if self._replays else None,
            "topic": self._topic.decode(),
        }

    def publish(self, events: Sequence[KvEvent], tokens_of: Callable[[BlockStored], Tokens]) -> None:
        self._pending += [self._encoder.event(event, tokens_of) for event in events]
        if len(self._pending) >= self._config.batch_events:
            self._send()
        elif self._flush is None:
            delay_s = self._config.batch_delay_s
            self._flush = asyncio.get_running_loop().call_later(delay_s, self._send)

    async def serve_replays(self) -> None:
        """Serve replay requests, one after the other."""
        while self._replays is not None:
            frames = await self._replays.recv_multipart()
            if len(frames) != 3 or len(frames[2]) != 8:
                continue
            await self._replay(frames[0], int.from_bytes(frames[2], "big"))

    def restart(self) -> None:
        """Restart numbering at 0 and discard everything, as a new process would."""
        self._number = 0
        self._kept.clear()
        self._pending.clear()

    def close(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
        # Unlike sockets that the context creates, these are not closed with it, and it would wait for them.
        self._out.close(linger=0)
        if self._replays is not None:
            self._replays.close(linger=0)
        self._context.term()

    def _send(self) -> None:
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        if not self._pending:
            return
        number = self._number.to_bytes(8, "big")
        payload = self._encoder.batch(time.time(), self._pending)
        self._number += 1
        self._pending.clear()
        self._kept.append((number, payload))
        with contextlib.suppress(zmq.Again):
            self._out.send_multipart((self._topic, number, payload), zmq.NOBLOCK)

    async def _replay(self, who: bytes, first: int) -> None:
        assert self._replays is not None
        for number, payload in list(self._kept):
            if int.from_bytes(number, "big") >= first:
                await self._replays.send_multipart((who, b"", number, payload))
        await self._replays.send_multipart((who, b"", END_OF_REPLAY, b""))

    def _open(self, socket: zmq.Socket[Any], endpoint: str, *, connects: bool) -> None:
        address = _of_rank(endpoint, self._rank)
        try:
            if connects:
                socket.connect(address)
            else:
                socket.bind(address)
        except zmq.ZMQError as error:
            raise OSError(
                f"cannot publish KV events on {address}: {error.strerror}; choose another address with "
                "--kv-events-config, or with --zmq-endpoint and --kv-events-replay-endpoint"
            ) from error


def _of_rank(endpoint: str, rank: int) -> str:
    """vLLM's rule: rank i uses the port plus i."""
    head, _, port = endpoint.rpartition(":")
    if not port.isdigit():
        return endpoint
    # ZMQ takes a free port for *, which elsewhere is 0.
    return f"{head}:{int(port) + rank}" if int(port) else f"{head}:*"


def _address(socket: zmq.Socket[Any]) -> str:
    return str(socket.getsockopt_string(zmq.LAST_ENDPOINT))
