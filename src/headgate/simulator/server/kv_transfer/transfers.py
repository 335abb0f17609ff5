"""Determine the part of a request in a prefill/decode pair."""

import time

from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.kv_transfer import transfer
from headgate.simulator.server.kv_transfer.forms import (
    BlockStore,
    BootstrapDecode,
    BootstrapPrefill,
    NixlDecode,
    NixlPrefill,
    StoredPrefix,
)
from headgate.simulator.server.kv_transfer.meeting import HeldPrompts, Rooms
from headgate.simulator.server.kv_transfer.side_channel import SideChannel
from headgate.simulator.server.kv_transfer.transfer import Protocol, Transfer
from headgate.simulator.server.settings import ServerSettings

PLAIN = Transfer()


class Transfers:
    """All prefill/decode state of this engine."""

    def __init__(self, settings: ServerSettings, engine_id: str, address: tuple[str, int]) -> None:
        self._settings = settings
        self._engine_id = engine_id
        self._address = address
        self.protocol = Protocol(strict=settings.check_protocol)
        self.held = HeldPrompts(settings.engine.block_size, settings.kv_hold_s, time.monotonic)
        self.rooms = Rooms(settings.bootstrap_timeout_s)
        self._store = BlockStore(settings.kv_store) if settings.kv_store else None
        self.side_channel = SideChannel(
            engine_id, self.held, self.rooms, self.protocol, by_tls=settings.speaks_tls
        )

    def of(self, generation: Generation) -> Transfer:
        """The transfer of this request. Deviations are counted; a 400 if the protocol is enforced."""
        role, params = self._settings.role, generation.kv_params
        if role != "both" and (generation.bootstrap is not None or self._settings.api == "sglang"):
            return self._bootstrap(generation)
        if params is not None and params.do_remote_decode:
            self.protocol.saw("nixl prefill")
            shape = [*transfer.prefill_shape(generation), *transfer.prefill_params(params)]
            self.protocol.found(shape + transfer.role(role, "prefill"))
            return NixlPrefill(generation, self.held, self._engine_id, self._address)
        if params is not None and params.do_remote_prefill:
            self.protocol.saw("nixl decode")
            self.protocol.found(transfer.decode_params(params) + transfer.role(role, "decode"))
            return NixlDecode(generation, params, self.side_channel, self.protocol)
        if role == "prefill":
            self.protocol.saw("plain prefill")
            self.protocol.found(transfer.prefill_shape(generation))
        if self._store is not None:
            return StoredPrefix(generation, self._store, self._settings.engine.block_size, self.protocol)
        return PLAIN

    def _bootstrap(self, generation: Generation) -> Transfer:
        bootstrap = generation.bootstrap
        if bootstrap is None:
            self.protocol.deviations["no_room"] += 1
            message = "bootstrap_room: an engine of a prefill/decode pair takes no request without one"
            raise ApiError(400, message, param="bootstrap_room")
        if self._settings.role == "prefill":
            self.protocol.saw("bootstrap prefill")
            used = [room for room in bootstrap.rooms if self.rooms.was_used(room)]
            self.protocol.found(transfer.rooms(bootstrap, used))
            return BootstrapPrefill(generation, bootstrap, self.rooms)
        self.protocol.saw("bootstrap decode")
        self.protocol.found(transfer.rooms(bootstrap, []))
        if None in bootstrap.hosts:
            self.protocol.deviations["no_bootstrap_host"] += 1
            message = "bootstrap_host: the decode side must be told where the prefill side is"
            raise ApiError(400, message, param="bootstrap_host")
        return BootstrapDecode(generation, bootstrap, self.side_channel, self.protocol)

    async def aclose(self) -> None:
        await self.side_channel.aclose()
        if self._store is not None:
            self._store.close()

    def statistics(self) -> dict[str, object]:
        """For /admin/protocol."""
        return {
            **self.protocol.statistics(),
            "engine_id": self._engine_id,
            "held_prompts": len(self.held),
            "held_expired": self.held.expired,
            "open_rooms": len(self.rooms),
        }
