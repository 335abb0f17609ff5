"""The states of a request, and the states in which each event is allowed.

A state is one bit, so that a set of states is a number and a check is one operation.
"""

from __future__ import annotations

from typing import Final

NEW: Final = 1
"""Its body is complete; nothing is decided."""
READING: Final = 2
"""The parts of a large body that the decision needs are being read."""
TOKENS: Final = 4
"""It waits for tokens of its route's limit."""
QUEUED: Final = 8
"""It is queued for its pool."""
PREFILLING: Final = 16
"""Another endpoint prefills its prompt; the decoding endpoint has no request yet."""
REACHING: Final = 32
"""An endpoint was picked; the request is not sent yet."""
SENT: Final = 64
"""An endpoint has the request, and has not responded."""
RETRYING: Final = 128
"""An attempt failed; the next begins after an interval."""
ANSWERING: Final = 256
"""The response head has arrived."""
OVER: Final = 512
"""It is settled."""

ANY: Final = NEW | READING | TOKENS | QUEUED | PREFILLING | REACHING | SENT | RETRYING | ANSWERING
"""All but the last."""
TRYING: Final = PREFILLING | REACHING | SENT | RETRYING
"""An attempt is in progress, and no response has arrived."""

NAMES: Final = {
    NEW: "new",
    READING: "reading",
    TOKENS: "waiting for tokens",
    QUEUED: "queued",
    PREFILLING: "prefilling",
    REACHING: "connecting",
    SENT: "sent",
    RETRYING: "waiting to retry",
    ANSWERING: "answering",
    OVER: "over",
}
"""For debug pages and errors."""

ALLOWED: Final = {
    "begin": NEW,
    "decided": NEW,
    "body_read": READING,
    "tokens_fetched": TOKENS,
    "tokens_out": TOKENS,
    "admitted": QUEUED,
    "turned_away": QUEUED | TRYING,
    "sent": REACHING,
    "connect_failed": REACHING,
    "connections_exhausted": REACHING,
    "connects_slowly": REACHING,
    "served_by": SENT,
    "head": SENT,
    "first_byte": ANSWERING,
    "finished": ANSWERING,
    "endpoint_lost": SENT | ANSWERING,
    "endpoint_broke": SENT | ANSWERING,
    "timer": REACHING | SENT | RETRYING,
    "broke": ANY,
    "client_gone": ANY,
    "upload_refused": ANY,
    "prefill_sent": PREFILLING | REACHING | SENT | ANSWERING | RETRYING,
    "prefill_head": PREFILLING | REACHING | SENT | ANSWERING | RETRYING,
    "prefilled": PREFILLING | REACHING | SENT | ANSWERING,
    "prefill_refused": PREFILLING | REACHING | SENT | ANSWERING,
    "prefill_failed": PREFILLING | REACHING | SENT | ANSWERING,
    "prefill_impossible": PREFILLING | REACHING | SENT | ANSWERING,
}
"""An event in any other state is a bug of the shell that reports it."""


class NotAllowedError(Exception):
    """An event was reported in a state that does not allow it."""
