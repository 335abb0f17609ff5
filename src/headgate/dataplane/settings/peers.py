"""The section about other processes that use the same endpoints."""

from __future__ import annotations

from typing import Annotated

from headgate.dataplane.settings.section import Section, port, setting


class Peers(Section, frozen=True):
    """Other processes that use the same endpoints, and share what they know. Without addresses or discovery,
    nothing is shared."""

    addresses: Annotated[
        tuple[str, ...],
        setting(
            "Processes to share with, as host:port; the own address may be among them.",
            live=False,
            flag="--peers",
        ),
    ] = ()
    discovery: Annotated[
        bool,
        setting("Whether processes find each other by Leases in their namespace.", live=False),
    ] = False
    host: Annotated[str, setting("Address on which peers connect to this process.", live=False)] = "127.0.0.1"
    port: Annotated[int, port("these connections")] = 0
    advertise: Annotated[
        str,
        setting(
            "Host in the Lease of this process, such as the IP of its Pod; empty for peers.host.", live=False
        ),
    ] = ""
    token_file: Annotated[
        str | None,
        setting(
            "File with a token of 16 bytes or more that all peers have. Without it, peers are processes of "
            "this machine only.",
            live=False,
        ),
    ] = None
    interval_s: Annotated[
        float, setting("Time between two reports to peers.", live=False, ge=0.005, le=1.0)
    ] = 0.02
