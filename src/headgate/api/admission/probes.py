"""Probes of containers: what Kubernetes refuses in them."""

from __future__ import annotations

from headgate.api.admission import names
from headgate.api.admission.field_cursor import FieldCursor, whole
from headgate.api.admission.findings import Findings

__all__ = ["check", "check_port_number", "check_port_reference"]

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_NUMBERS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
_SCHEMES = ("HTTP", "HTTPS")


def check(container: FieldCursor, found: Findings) -> None:
    """Judges the three probes of a container."""
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        if kind not in container.mapping:
            continue
        probe = container[kind]
        _check_handler(probe, found)
        for field in _NUMBERS:
            if (whole(probe.get(field)) or 0) < 0:
                found.invalid(probe[field], "must be greater than or equal to 0")
        if kind != "readinessProbe" and (whole(probe.get("successThreshold")) or 0) > 1:
            found.invalid(probe["successThreshold"], "must be 1")


def _check_handler(probe: FieldCursor, found: Findings) -> None:
    handlers = [probe[name] for name in _HANDLERS if probe.get(name) is not None]
    if not handlers:
        found.required(probe, "must specify a handler type")
    for extra in handlers[1:]:
        found.forbidden(extra, "may not specify more than 1 handler type")
    for handler in handlers:
        check_port_reference(handler["port"], found)
        scheme = handler["scheme"]
        if scheme.text is not None and scheme.text not in _SCHEMES:
            found.unsupported(scheme, _SCHEMES)


def check_port_reference(port: FieldCursor, found: Findings) -> None:
    """The number or the name of a port."""
    if port.text is not None:
        for complaint in names.port_name(port.text):
            found.invalid(port, complaint)
    else:
        check_port_number(port, found)


def check_port_number(port: FieldCursor, found: Findings) -> None:
    """A port that something can listen on."""
    if port.integer is not None and not 1 <= port.integer <= 65535:
        found.invalid(port, "must be between 1 and 65535, inclusive")
