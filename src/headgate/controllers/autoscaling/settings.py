"""How often and how long the autoscaler looks, and where it finds what gateways know."""

from __future__ import annotations

from pathlib import Path

import msgspec


class AutoscalingSettings(msgspec.Struct, frozen=True, kw_only=True):
    period_s: float = 15.0
    """How often the Pods of a target are read, and a binding without signals of gateways is decided."""
    signals_s: float = 1.0
    """How often a binding is decided of which a gateway tells."""
    over_s: float = 60.0
    """Counters and histograms of Pods are about this time before."""
    deadline_s: float = 5.0
    """How long the reading of one target may take; what has not come by then is missing."""
    workers: int = 64
    """Bindings that are decided at the same time: one whose Pods respond slowly holds up no other."""
    sweep_s: float = 60.0
    """How long after it begins to lead a controller knows which pools have bindings: annotations of others
    are removed."""
    gateways: tuple[str, ...] = ()
    """URLs of the metrics ports of gateways."""
    gateway_service: str = ""
    """NAMESPACE/NAME of the Service of gateways, all endpoints of which are followed; empty for none."""
    gateway_port: int = 9090
    """The metrics port of these endpoints."""
    prometheus: str = ""
    """URL of a Prometheus server, for metrics that are queries; empty for none."""
    prometheus_token_file: Path | None = None
    prometheus_ca_file: Path | None = None
