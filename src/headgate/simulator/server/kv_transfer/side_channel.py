"""Communication between simulated engines: two HTTP paths that each one serves, and their client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.kv_transfer.meeting import HeldPrompts, Rooms
from headgate.simulator.server.kv_transfer.transfer import Computed, Protocol

if TYPE_CHECKING:
    import httpx2

READ_TIMEOUT_S = 10.0
MAX_CONNECTIONS = 1000


class ReadBlocks(msgspec.Struct, frozen=True):
    """A decode engine asks for the blocks that a prefill engine holds for it."""

    engine_id: str
    block_ids: list[int]
    request_id: str | None = None


class SideChannel:
    """Serves other engines from what this one holds, and sends requests to them."""

    def __init__(
        self, engine_id: str, held: HeldPrompts, rooms: Rooms, protocol: Protocol, *, by_tls: bool = False
    ) -> None:
        """`by_tls`: use TLS for other engines; their certificates are not verified."""
        self._engine_id = engine_id
        self._held = held
        self._rooms = rooms
        self._protocol = protocol
        self._scheme = "https" if by_tls else "http"
        self._client: httpx2.AsyncClient | None = None
        self._asking: set[asyncio.Future[httpx2.Response]] = set()

    async def serve_blocks(self, exchange: Exchange) -> None:
        """POST /kv_transfer/blocks: 200 with the computed prompt, or 404."""
        try:
            wanted = msgspec.json.decode(await exchange.read_body(), type=ReadBlocks)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ApiError(400, str(error)) from error
        ours = wanted.engine_id == self._engine_id
        held = self._held.read(wanted.request_id, tuple(wanted.block_ids)) if ours else None
        if held is None:
            raise ApiError(404, "These blocks are not held here (any more)")
        self._protocol.saw("prompt sent")
        await exchange.answer(msgspec.json.encode(Computed(held.digest, held.tokens)))

    async def serve_room(self, exchange: Exchange) -> None:
        """POST /kv_transfer/rooms/{room}: 200 once the prompt is computed, 404 if it will not be."""
        computed = await exchange.unless_gone(self._rooms.decode(exchange.path_param("room")))
        if computed is None:
            raise ApiError(404, "The prefill of this room failed, or did not come in time")
        self._protocol.saw("prompt sent")
        await exchange.answer(msgspec.json.encode(computed))

    async def read_blocks(self, host: str, port: int, wanted: ReadBlocks) -> Computed | None:
        """Request blocks from an engine; None if it does not have them or is unreachable."""
        url = f"{self._origin(host, port)}/kv_transfer/blocks"
        return await self._ask(url, msgspec.json.encode(wanted), READ_TIMEOUT_S)

    async def enter_room(self, host: str, port: int, room: int) -> Computed | None:
        """Wait in a room of the prefill engine."""
        url = f"{self._origin(host, port)}/kv_transfer/rooms/{room}"
        return await self._ask(url, b"", self._rooms.timeout_s)

    def cut(self) -> None:
        """Stop waiting for other engines, and release those that wait here."""
        self._rooms.close_all()
        for asking in self._asking:
            asking.cancel()

    async def aclose(self) -> None:
        self.cut()
        if self._client is not None:
            await self._client.aclose()

    async def _ask(self, url: str, body: bytes, timeout_s: float) -> Computed | None:
        import httpx2  # takes a while, and most engines never need it

        from headgate import http_clients

        if self._client is None:
            limits = httpx2.Limits(max_connections=MAX_CONNECTIONS)
            transport = http_clients.transport(limits=limits, trust_env=False, verify=False)
            self._client = httpx2.AsyncClient(transport=transport, trust_env=False)
        asking = asyncio.ensure_future(self._client.post(url, content=body, timeout=timeout_s))
        self._asking.add(asking)
        try:
            await asyncio.wait((asking,), timeout=timeout_s)
            if asking.cancelled() or not asking.done():
                return None
            response = asking.result()
            if response.status_code != 200:
                return None
            return msgspec.json.decode(response.content, type=Computed)
        except (httpx2.HTTPError, httpx2.InvalidURL, msgspec.DecodeError):
            return None
        finally:
            self._asking.discard(asking)
            asking.cancel()

    def _origin(self, host: str, port: int) -> str:
        return f"{self._scheme}://[{host}]:{port}" if ":" in host else f"{self._scheme}://{host}:{port}"
