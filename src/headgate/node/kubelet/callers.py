"""Who calls a node's API, and the rights that a request needs.

As with a kubelet, rights are those of the resource `nodes` with this node's name, by subresource.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_SUBRESOURCES = {
    "stats": ("stats",),
    "metrics": ("metrics",),
    "logs": ("log",),
    "checkpoint": ("checkpoint",),
    "healthz": ("healthz", "proxy"),
    "configz": ("configz", "proxy"),
    "pods": ("pods", "proxy"),
    "runningpods": ("pods", "proxy"),
}
"""By the first part of the path; one of the rights suffices. All other paths need `proxy`."""
_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_RUNS_COMMANDS = ("exec", "attach", "run", "portforward")


@dataclass(frozen=True)
class Caller:
    """A user as the API server knows it."""

    name: str
    groups: Sequence[str] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def from_certificate(cls, certificate: Mapping[str, Any] | None) -> Caller | None:
        """From a verified certificate, as the ssl module shows it: common name and organizations."""
        pairs = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
        names = [value for key, value in pairs if key == "commonName" and value]
        groups = tuple(value for key, value in pairs if key == "organizationName")
        return cls(names[-1], (*groups, "system:authenticated")) if names else None


@dataclass(frozen=True)
class Right:
    """A verb on one of some subresources of the node."""

    verb: str
    subresources: Sequence[str]


def needed(method: str, path: Sequence[str]) -> Right:
    """The right that a request needs. Commands need `create` even by GET, so that the right to read does not
    include the right to run programs."""
    first = path[0].lower() if path else ""
    verb = "create" if first in _RUNS_COMMANDS else _VERBS.get(method, method.lower())
    return Right(verb, _SUBRESOURCES.get(first, ("proxy",)))
