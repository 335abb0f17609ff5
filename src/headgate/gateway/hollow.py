"""Responses with status 200 that hold an error, or nothing, where an answer should be.

An engine that has lost its workers may begin each response well, since its API server is alive, and end it at
once. It looks idle, and would draw most of its pool's requests.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.gateway.exchange import Exchange
    from headgate.requests.usage import Usage

REASON = "no_content"
_KEPT_BYTES = 1024
"""Of a shorter response, all is known; of a longer one if it came in few pieces."""
_LONGEST_FRAME = 16
"""Of what stands before the JSON of a response: the size of a chunk."""
_NO_CHUNK = b"0\r\n\r\n"
_EVENT = re.compile(rb"^data:[ ]?(?:(\[DONE\])|(?=(\{)))", re.MULTILINE)
_ERROR = re.compile(
    rb'\{\s*+"(?:error"\s*+:\s*+[{"]|object"\s*+:\s*+"error"|type"\s*+:\s*+"(?:error|response\.failed)")'
)
_OF_CLIENT = re.compile(rb'invalid_request|BadRequest|"code"\s*+:\s*+"?4\d\d')
"""What an error has that is the client's own, as a stream cannot say by its status any more."""
_CHAT = "/v1/chat/completions"


def is_hollow(exchange: Exchange, usage: Usage | None) -> bool:
    """Whether a whole response of status 200 is one, as far as that was kept. A client's mistake is none."""
    if usage is not None:
        return not usage.completion and exchange.request.path == _CHAT
    size, text = exchange.bytes_out + exchange.taken_bytes, exchange.tail.text()
    if exchange.is_encoded or (size > _KEPT_BYTES and size != len(text)):
        return not size
    first = _EVENT.search(text) if exchange.decision.stream else None
    if first is not None and first[1]:
        return True
    at = first.start(2) if first is not None else text.find(b"{")
    if first is None and not 0 <= at <= _LONGEST_FRAME:
        return text in (b"", _NO_CHUNK)
    return _ERROR.match(text, at) is not None and _OF_CLIENT.search(text, at) is None
