"""Two ordinary requests: the engines share a store that the prefill fills, and nothing is said of it."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from headgate.engines.transfer.body import Body, Buffers
from headgate.engines.transfer.connector import Connector, Meeting


class Http(Connector):
    """The second request finds in the store what the first one left there, as often as it is sent."""

    name: ClassVar[str] = "http"

    def prefill(self, body: Body, meeting: Meeting) -> bytes | Buffers:
        return body.prefill()

    def decode(self, body: Body, meeting: Meeting, handed_over: msgspec.Raw | None) -> bytes | Buffers:
        return body.whole()
