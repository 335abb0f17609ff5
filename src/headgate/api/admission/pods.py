"""Pods: what Kubernetes refuses in their spec beyond types, and what it warns of."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.api.admission import names, pod_changes, probes, resources
from headgate.api.admission.field_cursor import FieldCursor, whole
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import View

__all__ = ["at_least", "check", "check_spec", "warn_of_name"]

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
    """Warns of the name of a new object that is no DNS label, since host names are made of it."""
    name = obj.at("metadata.name")
    if name.text and (odd := list(names.dns_label(name.text))) and not any(names.subdomain(name.text)):
        told = "which can result in surprising behavior; a DNS label is recommended"
        found.warn(name, f"this is used in {use}, {told}: [{' '.join(odd)}]")


def check_spec(spec: FieldCursor, found: Findings) -> None:
    """Judges the spec of a Pod, or of a template of Pods."""
    if not spec["containers"].value:
        found.required(spec["containers"])
    at_least(spec["terminationGracePeriodSeconds"], 0, found)
    deadline = spec["activeDeadlineSeconds"]
    if deadline.integer is not None and not 1 <= deadline.integer <= _LARGEST_INT32:
        found.invalid(deadline, f"must be between 1 and {_LARGEST_INT32}, inclusive")
    volumes = {volume["name"].text for volume in spec["volumes"].items()}
    for container in spec["containers"].items():
        _check_container(container, volumes, found)
        probes.check(container, found)
    for container in spec["initContainers"].items():
        _check_container(container, volumes, found)


def at_least(place: FieldCursor, least: int, found: Findings) -> None:
    """Refuses a smaller number."""
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
    resources.check(container["resources"], found)
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
                probes.check_port_number(port[given], found)
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
    """Each item whose fields are those of an earlier one, with that one."""
    if not isinstance(items.value, list) or len(items.value) < 2:
        return
    seen: dict[str, FieldCursor] = {}
    for item in items.items():
        identity = repr([item[field].value for field in fields])
        if item[fields[0]].present and identity in seen:
            yield seen[identity], item
        seen.setdefault(identity, item)
