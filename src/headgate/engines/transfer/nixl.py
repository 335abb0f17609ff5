"""vLLM's NIXL connector: who prefills says where its blocks are, and who decodes reads them from there."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headgate.engines.transfer.body import Body, Buffers
from headgate.engines.transfer.connector import Connector, Meeting

_KEEP_BLOCKS = msgspec.Raw(
    b'{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,'
    b'"remote_host":null,"remote_port":null}'
)
"""Asks the engine to hold the blocks after its answer, which then says where they are."""


class Nixl(Connector):
    """The blocks are freed once they were read: what may have been read is never pointed at again, since
    other blocks may be in their place by then."""

    name: ClassVar[str] = "nixl"
    needs_answer: ClassVar[bool] = True
    can_repeat: ClassVar[bool] = False

    def why_not(self, body: Body) -> str:
        """Several sequences would each read the blocks, and the first to be done frees them."""
        if why := super().why_not(body):
            return why
        if body.count("n") > 1 or body.count("best_of") > 1 or body.has("use_beam_search"):
            return "n"
        # The answer says where the blocks of one prompt are.
        return "prompts" if body.prompts() > 1 else ""

    def prefill(self, body: Body, meeting: Meeting) -> bytes | Buffers:
        return body.prefill(kv_transfer_params=_KEEP_BLOCKS)

    def decode(self, body: Body, meeting: Meeting, handed_over: msgspec.Raw | None) -> bytes | Buffers:
        return body.whole() if handed_over is None else body.with_members(kv_transfer_params=handed_over)
