"""Metrics of the exchange with other processes."""

from __future__ import annotations

from collections.abc import Callable

from headgate.peers.peers import Peers
from headgate.telemetry import Counter, Gauge, Registry

_Samples = list[tuple[tuple[str, ...], float]]


def add_metrics(registry: Registry, peers: Peers | None, clock: Callable[[], float], prefix: str) -> None:
    """Add the metrics, which are 0 if there is no exchange."""

    def one(value: Callable[[Peers], float]) -> Callable[[], _Samples]:
        return lambda: [((), value(peers) if peers is not None else 0.0)]

    def messages() -> _Samples:
        told = peers.statistics() if peers is not None else {}
        return [((name,), float(told.get(name, 0))) for name in ("sent", "received", "dropped", "refused")]

    registry.add(
        Gauge(
            f"{prefix}_peers",
            "Other processes whose requests in flight this one knows.",
            (),
            one(lambda each: len(each.members.heard_s(clock()))),
            over="max",
        ),
        Gauge(
            f"{prefix}_peers_silent_seconds",
            "Time since the last report of the peer that was silent for longest.",
            (),
            one(lambda each: max(each.members.heard_s(clock()).values(), default=0.0)),
            over="max",
        ),
        Counter(
            f"{prefix}_peer_reports",
            "Reports to and from peers; dropped ones were not sent because a peer reads too slowly, refused "
            "ones were not from a peer.",
            ("result",),
            messages,
        ),
    )
