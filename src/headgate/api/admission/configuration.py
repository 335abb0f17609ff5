"""ConfigMaps, Secrets and Leases: Kubernetes' rules."""

from __future__ import annotations

import base64
import binascii

from headgate.api.admission import names, pods
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.references import View

__all__ = ["check_config_map", "check_lease", "check_secret"]

MAX_BYTES = 1 << 20
_IMMUTABLE = "field is immutable when `immutable` is set"
_WHOLE = FieldCursor(None, FieldCursor(None), ("",))
"""What Kubernetes prints for a ConfigMap that is too large."""


def check_config_map(config: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for a ConfigMap."""
    _check_keys(config["data"], found)
    _check_keys(config["binaryData"], found)
    _check_base64(config["binaryData"], found)
    for key in config["data"].mapping.keys() & config["binaryData"].mapping.keys():
        found.invalid(config["data"].key(key), "duplicate of key present in binaryData", key)
    _check_size(_WHOLE, [*config["data"].texts.values(), *config["binaryData"].texts.values()], found)
    if old is not None:
        _check_frozen(config, old, ("data", "binaryData"), found)


def check_secret(secret: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for a Secret."""
    _check_keys(secret["data"], found)
    _check_base64(secret["data"], found)
    _check_size(secret["data"], list(secret["data"].texts.values()), found)
    if old is None:
        return
    _check_frozen(secret, old, ("data",), found)
    if old["type"].text and secret["type"].text != old["type"].text:
        found.invalid(secret["type"], "field is immutable")


def check_lease(lease: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for a Lease."""
    length, transitions = lease.at("spec.leaseDurationSeconds"), lease.at("spec.leaseTransitions")
    if length.integer is not None and length.integer <= 0:
        found.invalid(length, "must be greater than 0")
    pods.at_least(transitions, 0, found)


def _check_keys(data: FieldCursor, found: Findings) -> None:
    for key in data.mapping:
        for complaint in names.config_key(key):
            found.invalid(data.key(key), complaint, key)


def _check_base64(data: FieldCursor, found: Findings) -> None:
    """Reject values that are not base64, without showing them: they may be secrets that were not encoded."""
    for key, text in data.texts.items():
        try:
            base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
        except (binascii.Error, ValueError):
            found.invalid(data.key(key), "must be base64", "<contents redacted>")


def _check_size(place: FieldCursor, values: list[str], found: Findings) -> None:
    if sum(map(len, values)) > MAX_BYTES:
        found.too_long(place, f"may not be more than {MAX_BYTES} bytes")


def _check_frozen(new: FieldCursor, old: FieldCursor, fields: tuple[str, ...], found: Findings) -> None:
    if old["immutable"].value is not True:
        return
    if new["immutable"].value is not True:
        found.forbidden(new["immutable"], _IMMUTABLE)
    for field in fields:
        if new[field].mapping != old[field].mapping:
            found.forbidden(new[field], _IMMUTABLE)
