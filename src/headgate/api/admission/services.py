"""Services: Kubernetes' rules for their ports, types and selectors."""

from __future__ import annotations

import ipaddress

from headgate.api.admission import names, pods
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import View

__all__ = ["check"]

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def check(service: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for a Service."""
    spec = service["spec"]
    kind = spec["type"].text or "ClusterIP"
    if kind not in _TYPES:
        found.unsupported(spec["type"], _TYPES)
    is_headless = spec["clusterIP"].text == "None"
    _check_addresses(spec, found)
    if kind == "ExternalName":
        _check_external_name(spec["externalName"], found)
        for name in ("clusterIP", "clusterIPs"):
            if spec[name].value:
                found.forbidden(spec[name], "may not be set for ExternalName services")
    elif not is_headless and not spec["ports"].value:
        found.required(spec["ports"])
    _check_selector(spec["selector"], found)
    _check_ports(spec["ports"], found)
    if old is not None and kind != "ExternalName":
        before, address = old.at("spec.clusterIP").text, spec["clusterIP"]
        if before and address.text and old.at("spec.type").text != "ExternalName" and address.text != before:
            found.invalid(spec["clusterIPs"].key("0"), "may not change once set", [address.text])


def _check_addresses(spec: FieldCursor, found: Findings) -> None:
    """clusterIPs, if present, begins with clusterIP, which is an address or None."""
    address, addresses = spec["clusterIP"], [item.text for item in spec["clusterIPs"].items()]
    if addresses and not address.text:
        found.forbidden(spec["clusterIPs"], "must be empty when `clusterIP` is not specified")
    elif addresses and addresses[0] != address.text:
        found.invalid(spec["clusterIPs"], "first value must match `clusterIP`", addresses)
    elif len(addresses) > 1:
        found.invalid(spec["clusterIPs"], "may only hold one value on a single-stack cluster", addresses)
    if address.text and address.text != "None" and not _is_address(address.text):
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        found.invalid(spec["clusterIPs"].key("0"), detail, address.text)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _check_external_name(name: FieldCursor, found: Findings) -> None:
    text = (name.text or "").removesuffix(".")
    if not text:
        found.required(name)
        return
    for complaint in names.subdomain(text):
        found.invalid(name, complaint)


def _check_selector(selector: FieldCursor, found: Findings) -> None:
    for key, value in selector.texts.items():
        for complaint in names.qualified_name(key):
            found.invalid(selector, complaint, key)
        for complaint in names.label_value(value):
            found.invalid(selector, complaint, value)


def _check_ports(ports: FieldCursor, found: Findings) -> None:
    listed = list(ports.items())
    seen_names: set[str] = set()
    seen_ports: set[tuple[str, int | None]] = set()
    for port in listed:
        name, protocol = port["name"], port["protocol"]
        if not name.value and len(listed) > 1:
            found.required(name)
        elif name.text:
            for complaint in names.dns_label(name.text):
                found.invalid(name, complaint)
            if name.text in seen_names:
                found.duplicate(name)
            seen_names.add(name.text)
        if protocol.text is not None and protocol.text not in _PROTOCOLS:
            found.unsupported(protocol, _PROTOCOLS)
        if isinstance(port.value, dict) and not port["port"].present:
            found.invalid(port["port"], "must be between 1 and 65535, inclusive", 0)
        pods.check_port_number(port["port"], found)
        pods.check_port_reference(port["targetPort"], found)
        identity = (protocol.text or "TCP", port["port"].integer)
        if identity in seen_ports and identity[1] is not None:
            found.duplicate(port)
        seen_ports.add(identity)
