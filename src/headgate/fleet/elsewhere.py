"""The work of other gateways on one endpoint, as they report it themselves.

A report is a few hundredths of a second old. It replaces what a metrics page shows of these gateways: of the
engine's requests, only those that nobody reports count as work of strangers.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Elsewhere(NamedTuple):
    """Sums over all other gateways, for one endpoint."""

    requests: int = 0
    decoding: int = 0
    """Those past their first token, and all whose response is not streamed."""
    begun: int = 0
    """Those whose first token was seen."""
    prefill_tokens: int = 0
    """Uncached prompt tokens of requests without a first token."""
    unseen_tokens: int = 0
    """The part of these whose responses are not streamed."""
    output_tokens: int = 0
    owed_tokens: int = 0
    """Tokens in their queues, of which the endpoint serves one after the other."""
    head_tokens: int = 0
    """The longest prompt at the head of one of their queues; 0 if no first token is awaited."""
    since: float = -math.inf
    """When the endpoint started on the first of them, in monotonic seconds: the last first token that any of
    them saw."""


NOTHING = Elsewhere()
