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

LABEL_KEYS: Final[dict[str, Any]] = {
    "x-kubernetes-validations": [
        {"rule": "self.all(key, size(key) <= 253)", "message": "a label key has at most 253 characters"},
        {
            "rule": "self.all(key, key.matches('^(.*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",
            "message": "the name in a label key has 1 to 63 letters, digits, '-', '_' or '.', and begins and "
            "ends with a letter or digit",
        },
        {
            "rule": r"self.all(key, key.matches("
            r"'^([a-z0-9](-*[a-z0-9])*(\\.[a-z0-9](-*[a-z0-9])*)*/)?[^/]*$'))",
            "message": "what stands before '/' in a label key must be a DNS name in lower case",
        },
    ]
}
"""A map whose keys are keys of labels. Structural schemas can't describe keys, so these are rules.

They are three and short, because an API server estimates what each costs for as many keys as fit into a
request, and refuses a definition with a rule that could cost too much.
"""
