"""Addresses of Services: each gets a unique one from a range, and keeps it.

Nothing responds at these addresses, because nothing on one machine forwards to a Service. They exist for
clients that expect a Service to have one, and so that manifests behave as in a cluster.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from headgate.apiserver import builtin
from headgate.apiserver.storage import Key, Store
from headgate.apiserver.targets import Target
from headgate.kubeschema.structural import FieldError

Object = dict[str, Any]

RANGE = ipaddress.IPv4Network("10.96.0.0/12")
"""kubeadm's default for a cluster."""
HEADLESS = "None"
_FIRST = 256
"""The lowest addresses are reserved for explicit requests, as in Kubernetes."""


class _Spec(msgspec.Struct, frozen=True):
    address: str = msgspec.field(default="", name="clusterIP")


class _Service(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


_DECODER = msgspec.json.Decoder(_Service)


ASKED = ("type", "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
"""The fields of a Service that determine its address."""


class Addresses(Protocol):
    """Assigns addresses to Services."""

    def assign(self, target: Target, service: Object) -> None: ...


class ServiceAddresses:
    """Tracks which Service has which address. The store is authoritative: a holder whose Service no longer
    has the address, or was never stored, holds nothing.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._holders: dict[str, Key] | None = None
        self._next = _FIRST

    def assign(self, target: Target, service: Object) -> None:
        """Set the missing addresses of a valid Service in place; 422 for an address that it cannot have."""
        spec = service["spec"]
        if spec.get("type") == "ExternalName":
            return
        if found := list(_family_faults(spec)):
            raise target.invalid(*found)
        asked = spec.get("clusterIP")
        if asked and asked != HEADLESS:
            self._take(target, asked)
        elif not asked:
            spec["clusterIP"] = asked = self._free(target.key)
        spec.setdefault("clusterIPs", [asked])
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")

    def _take(self, target: Target, address: str) -> None:
        if (holder := self._holder(address)) not in (None, target.key):
            _refuse(target, address, "provided IP is already allocated")
        elif holder is None:
            if ipaddress.ip_address(address) not in RANGE:
                why = f"the provided IP ({address}) is not in the valid range"
                _refuse(target, address, f"{why}. The range of valid IPs is {RANGE}")
            self._known()[address] = target.key

    def _free(self, key: Key) -> str:
        """An unused address; there are more addresses than objects allowed."""
        while True:
            address = str(RANGE[self._next])
            self._next = self._next + 1 if self._next < RANGE.num_addresses - 2 else _FIRST
            if self._holder(address) is None:
                self._known()[address] = key
                return address

    def _holder(self, address: str) -> Key | None:
        key = self._known().get(address)
        if key is None or (stored := self._store.get(key)) is None:
            return None
        return key if _DECODER.decode(stored.body).spec.address == address else None

    def _known(self) -> dict[str, Key]:
        if self._holders is None:
            stored = self._store.select(builtin.SERVICE)
            self._holders = {_DECODER.decode(each.body).spec.address: each.key for each in stored}
        return self._holders


def keep(old: Object, new: Object) -> None:
    """An update without an address keeps it; a Service that becomes an ExternalName loses it."""
    was, spec = old.get("spec"), new.get("spec")
    if not isinstance(was, dict) or not isinstance(spec, dict):
        return
    names = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
    if spec.get("type") == "ExternalName":
        for name in names:
            if name in spec and spec[name] == was.get(name):
                del spec[name]
        return
    if not spec.get("clusterIP"):
        for name in names:
            if not spec.get(name) and name in was:
                spec[name] = was[name]


def _family_faults(spec: Object) -> Iterator[FieldError]:
    for index, family in enumerate(spec.get("ipFamilies") or []):
        if family != "IPv4":
            yield _invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
    if (policy := spec.get("ipFamilyPolicy")) == "RequireDualStack":
        detail = "this cluster is not configured for dual-stack services"
        yield _invalid("spec.ipFamilyPolicy", policy, detail)


def _refuse(target: Target, address: str, why: str) -> None:
    raise target.invalid(_invalid("spec.clusterIPs", [address], f"failed to allocate IP {address}: {why}"))


def _invalid(field: str, value: object, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", field, detail, value)
