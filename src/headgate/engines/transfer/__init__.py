"""Transfer of a prompt's KV cache from the prefill endpoint to the decode endpoint, by connector.

Input: a request's body. Output: the two bodies that are sent instead. Pure: unknown fields, their order and
numbers of any size stay as the client wrote them, and the client's own body is never changed.
"""

from headgate.engines.transfer.body import MAX_PROMPTS, PROMPTS, READ_MEMBERS, Body, Buffers, large, read
from headgate.engines.transfer.connectors import (
    Connector,
    Http,
    LMCache,
    Meeting,
    Mooncake,
    Nixl,
    PrefillResponse,
    SGLangBootstrap,
)

_CONNECTORS: dict[str, Connector] = {
    connector.name: connector for connector in (Http(), LMCache(), Nixl(), Mooncake(), SGLangBootstrap())
}


def connector(name: str) -> Connector:
    """The connector of this name, as in a pool of the snapshot."""
    return _CONNECTORS[name]


__all__ = [
    "MAX_PROMPTS",
    "PROMPTS",
    "READ_MEMBERS",
    "Body",
    "Buffers",
    "Connector",
    "Meeting",
    "PrefillResponse",
    "connector",
    "large",
    "read",
]
