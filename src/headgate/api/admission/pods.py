"""Pods: Kubernetes' errors and warnings for their spec beyond types."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.api.admission import names, pod_changes
from headgate.api.admission.field_cursor import FieldCursor, whole
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import View
from headgate.kubeschema import quantity

__all__ = [
    "at_least",
    "check",
    "check_port_number",
    "check_port_reference",
    "check_resources",
    "check_spec",
    "warn_of_name",
]

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_LARGEST_INT32 = 2**31 - 1


def check(pod: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for a Pod."""
    if old is None:
        warn_of_name(pod, "the Pod's hostname", found)
    check_spec(pod["spec"], found)
    if old is not None:
        pod_changes.check(pod["spec"], old["spec"], found)


def warn_of_name(obj: FieldCursor, use: str, found: Findings) -> None:
    """Warn of the name of a new object that is not a DNS label, since host names are derived from it."""
    name = obj.at("metadata.name")
    if name.text and (odd := list(names.dns_label(name.text))) and not any(names.subdomain(name.text)):
        told = "which can result in surprising behavior; a DNS label is recommended"
        found.warn(name, f"this is used in {use}, {told}: [{' '.join(odd)}]")


def check_spec(spec: FieldCursor, found: Findings) -> None:
    """Validate the spec of a Pod, or of a Pod template."""
    if not spec["containers"].value:
        found.required(spec["containers"])
    at_least(spec["terminationGracePeriodSeconds"], 0, found)
    deadline = spec["activeDeadlineSeconds"]
    if deadline.integer is not None and not 1 <= deadline.integer <= _LARGEST_INT32:
        found.invalid(deadline, f"must be between 1 and {_LARGEST_INT32}, inclusive")
    volumes = {volume["name"].text for volume in spec["volumes"].items()}
    for container in spec["containers"].items():
        _check_container(container, volumes, found)
        check_probes(container, found)
    for container in spec["initContainers"].items():
        _check_container(container, volumes, found)


def at_least(place: FieldCursor, least: int, found: Findings) -> None:
    """Reject a smaller number."""
    if place.integer is not None and place.integer < least:
        found.invalid(place, f"must be greater than or equal to {least}")


def _check_container(container: FieldCursor, volumes: set[str | None], found: Findings) -> None:
    name = container["name"]
    if name.value == "":
        found.required(name)
    elif name.text is not None:
        for complaint in names.dns_label(name.text):
            found.invalid(name, complaint)
    _check_ports(container["ports"], found)
    check_resources(container["resources"], found)
    _check_environment(container["env"], found)
    for mount in container["volumeMounts"].items():
        _check_mount(mount, volumes, found)
    for earlier, mount in _repeated(container["volumeMounts"], "mountPath"):
        found.invalid(mount["mountPath"], "must be unique", earlier["mountPath"].value)


def _check_ports(ports: FieldCursor, found: Findings) -> None:
    taken: set[str] = set()
    for port in ports.items():
        if whole(port.get("containerPort")) == 0:
            found.required(port["containerPort"])
        for given in ("containerPort", "hostPort"):
            if whole(port.get(given)):
                check_port_number(port[given], found)
        if name := port["name"].text:
            for complaint in names.port_name(name):
                found.invalid(port["name"], complaint)
            if name in taken:
                found.duplicate(port["name"])
            taken.add(name)
        protocol = port.get("protocol")
        if isinstance(protocol, str) and protocol not in _PROTOCOLS:
            found.unsupported(port["protocol"], _PROTOCOLS)
    for earlier, port in _repeated(ports, "containerPort", "protocol", "hostPort", "hostIP"):
        found.warn(port, f"duplicate port definition with {earlier}")


def _check_environment(variables: FieldCursor, found: Findings) -> None:
    for variable in variables.items():
        name = variable.get("name")
        if name == "":
            found.required(variable["name"])
        elif isinstance(name, str) and "=" in name:
            found.invalid(variable["name"], "a valid environment variable name must not contain '='")
        if variable.get("valueFrom") is not None and variable["value"].text:
            found.invalid(variable["valueFrom"], "may not be specified when `value` is not empty", "")
    for _, variable in _repeated(variables, "name"):
        told = (
            f'hides previous definition of "{variable["name"].text}", which may be dropped when using apply'
        )
        found.warn(variable, told)


def _check_mount(mount: FieldCursor, volumes: set[str | None], found: Findings) -> None:
    name = mount.get("name")
    if not name:
        found.required(mount["name"])
    elif isinstance(name, str) and name not in volumes:
        found.not_found(mount["name"])
    if not mount.get("mountPath"):
        found.required(mount["mountPath"])


def _repeated(items: FieldCursor, *fields: str) -> Iterator[tuple[FieldCursor, FieldCursor]]:
    """Each item whose fields equal those of an earlier one, with that one."""
    if not isinstance(items.value, list) or len(items.value) < 2:
        return
    seen: dict[str, FieldCursor] = {}
    for item in items.items():
        identity = repr([item[field].value for field in fields])
        if item[fields[0]].present and identity in seen:
            yield seen[identity], item
        seen.setdefault(identity, item)


_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_NUMBERS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
_SCHEMES = ("HTTP", "HTTPS")


def check_probes(container: FieldCursor, found: Findings) -> None:
    """Validate the three probes of a container."""
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
    """A valid port number."""
    if port.integer is not None and not 1 <= port.integer <= 65535:
        found.invalid(port, "must be between 1 and 65535, inclusive")


_OVERCOMMITTED = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources whose limit may exceed the request; for all others both must be equal."""


def check_resources(resources: FieldCursor, found: Findings) -> None:
    """Reject negative amounts, and requests above their limits."""
    if not resources.value:
        return
    limits, requests = resources["limits"], resources["requests"]
    for kind in (limits, requests):
        for name, amount in kind.mapping.items():
            parsed = _amount(amount)
            if parsed is not None and parsed.unscaled < 0:
                found.invalid(kind.key(name), "must be greater than or equal to 0", str(amount))
    for name, request in requests.mapping.items():
        limit = limits.mapping.get(name)
        if request == limit:
            continue
        least, most = _amount(request), _amount(limit)
        if least is None or most is None:
            continue
        if name not in _OVERCOMMITTED and least != most:
            found.invalid(requests, f"must be equal to {name} limit of {limit}", str(request))
        elif least > most:
            found.invalid(requests, f"must be less than or equal to {name} limit of {limit}", str(request))


def _amount(value: object) -> quantity.Quantity | None:
    amount = value if isinstance(value, str) else whole(value)
    if amount is None:
        return None
    try:
        return quantity.parse(amount)
    except quantity.QuantityError:
        return None
