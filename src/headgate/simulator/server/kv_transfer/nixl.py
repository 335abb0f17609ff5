"""vLLM's form: the prefill's answer says where its blocks are, and the decode request brings that along."""

from collections.abc import Callable
from typing import Any

import msgspec

from headgate.simulator.server.generation import Generation
from headgate.simulator.server.kv_fields import NixlParams
from headgate.simulator.server.kv_transfer.held import HeldPrompts
from headgate.simulator.server.kv_transfer.protocol import Deviation, Protocol
from headgate.simulator.server.kv_transfer.side_channel import ReadBlocks, SideChannel
from headgate.simulator.server.kv_transfer.transfer import Transfer, digest_of


class NixlPrefill(Transfer):
    """Computes a prompt and holds it for another engine."""

    def __init__(
        self, generation: Generation, held: HeldPrompts, engine_id: str, address: tuple[str, int]
    ) -> None:
        self._generation = generation
        self._held = held
        self._engine_id = engine_id
        self._address = address

    keeps_kv = True

    def computed(self, answer_id: str, release: Callable[[], None]) -> dict[str, Any] | None:
        # As vLLM has it: only an answer that its limit ended has blocks to hand on, and a stream no place
        # to say where they are.
        if self._generation.max_tokens is None or self._generation.stream:
            release()
            return None
        prompt = self._generation.prompts[0]
        held = self._held.hold(answer_id, digest_of(prompt), len(prompt), release)
        params = NixlParams(
            do_remote_prefill=True,
            do_remote_decode=False,
            remote_engine_id=self._engine_id,
            remote_block_ids=list(held.block_ids),
            remote_request_id=held.request_id,
            remote_host=self._address[0],
            remote_port=self._address[1],
            tp_size=1,
        )
        return msgspec.structs.asdict(params)


class NixlDecode(Transfer):
    """Reads what another engine computed. Whatever is not there is computed here, as vLLM does by default."""

    waits = True

    def __init__(
        self, generation: Generation, params: NixlParams, side_channel: SideChannel, protocol: Protocol
    ) -> None:
        self._generation = generation
        self._params = params
        self._side_channel = side_channel
        self._protocol = protocol

    async def arrive(self) -> tuple[int, ...]:
        params = self._params
        if params.absent():
            self._protocol.saw("prompt computed again")
            return ()
        blocks = [
            block
            for group in params.remote_block_ids or ()
            for block in (group if isinstance(group, list) else [group])
        ]
        wanted = ReadBlocks(
            engine_id=params.remote_engine_id or "", block_ids=blocks, request_id=params.remote_request_id
        )
        read = await self._side_channel.read_blocks(params.remote_host or "", params.remote_port or 0, wanted)
        prompt = self._generation.prompts[0]
        if read is None:
            self._recompute("stale_params", "remote_block_ids: the other engine does not hold these blocks")
            return ()
        if read.digest != digest_of(prompt):
            self._recompute("other_prompt", "the other engine prefilled another prompt")
            return ()
        self._protocol.saw("prompt received")
        return (len(prompt), *(0 for _ in self._generation.prompts[1:]))

    def _recompute(self, check: str, message: str) -> None:
        field = "kv_transfer_params"
        self._protocol.saw("prompt computed again")
        self._protocol.found([Deviation(check, field, f"{field}: {message}")])
