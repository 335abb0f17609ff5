"""How objects name one another: the schemas of names, kinds, groups and labels that references are made of.

They are those of the Gateway API, which all kinds of the inference extension share. The limits are for the
API server; decoding doesn't repeat them.
"""

from __future__ import annotations

from typing import Any, Final

_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"

GROUP: Final[dict[str, Any]] = {"maxLength": 253, "pattern": rf"^$|^{_DNS_LABEL}(\.{_DNS_LABEL})*$"}
"""An API group; the empty one is the core group."""

KIND: Final[dict[str, Any]] = {
    "minLength": 1,
    "maxLength": 63,
    "pattern": "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$",
}
"""A kind, such as Service."""

OBJECT_NAME: Final[dict[str, Any]] = {"minLength": 1, "maxLength": 253}
"""The name of an object of any kind."""

NAMESPACE: Final[dict[str, Any]] = {"minLength": 1, "maxLength": 63, "pattern": f"^{_DNS_LABEL}$"}
"""The name of a namespace."""

CONTROLLER_NAME: Final[dict[str, Any]] = {
    "minLength": 1,
    "maxLength": 253,
    "pattern": rf"^{_DNS_LABEL}(\.{_DNS_LABEL})*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$",
}
"""A controller as a domain and a path: "headgate.dev/gateway"."""

LABEL_VALUE: Final[dict[str, Any]] = {
    "minLength": 0,
    "maxLength": 63,
    "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
}
"""The value of a label; it may be empty."""

_LABEL_KEY = rf"^({_DNS_LABEL}(\.{_DNS_LABEL})*/)?([A-Za-z0-9][-A-Za-z0-9_.]{{0,61}})?[A-Za-z0-9]$"

LABEL_KEYS: Final[dict[str, Any]] = {
    "x-kubernetes-validations": [
        {
            "rule": "self.all(key, size(key) <= 253 && key.matches('"
            + _LABEL_KEY.replace("\\", "\\\\")
            + "'))",
            "message": "each key must be that of a label: at most 63 letters, digits, '-', '_' or '.', "
            "with a DNS name and '/' before them if need be, 253 characters in all",
        }
    ]
}
"""A map whose keys are keys of labels. Structural schemas can't describe keys, so this is a rule."""
