"""Authorization: admins may do everything, readers may get, list and watch everything except Secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.apiserver import builtin, errors
from headgate.apiserver.registry import Registry
from headgate.apiserver.users import User

Object = dict[str, Any]

READING = ("get", "list", "watch")
OWN_REVIEWS = frozenset(
    {
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
    }
)
"""Reviews that every user may create about themselves."""

DISCOVERY_PATHS = ("/api", "/healthz", "/livez", "/openapi", "/readyz", "/version")
"""Paths that are not objects, and that every user may read."""
_WRITE_ONLY = frozenset({"binding", "eviction", "finalize", "token"})
"""Subresources that cannot be read."""

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True)
class Attributes:
    """The attributes of a request. `resource` is empty for paths that are not objects."""

    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def attributes(method: str, path: str, query: Mapping[str, str]) -> Attributes:
    """The attributes of a request from its path alone, whether or not the object exists."""
    match [part for part in path.split("/") if part]:
        case ["api", _, first, *rest]:
            group = ""
        case ["apis", group, _, first, *rest]:
            pass
        case _:
            return Attributes(method.lower(), path)
    namespace, parts = "", [first, *rest]
    if first == builtin.NAMESPACE and len(parts) >= 3 and parts[2] not in ("status", "finalize"):
        namespace, parts = parts[1], parts[2:]
    resource, name, subresource = [*parts, "", ""][:3]
    return Attributes(_verb(method, name, query), path, group, resource, subresource, namespace, name)


def _verb(method: str, name: str, query: Mapping[str, str]) -> str:
    if method in ("GET", "HEAD"):
        if query.get("watch", "").lower() in ("true", "1"):
            return "watch"
        return "get" if name else "list"
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    return _VERBS.get(method, method.lower())


def allows(user: User, asked: Attributes) -> bool:
    """Whether the user may do this. `*` as verb or resource asks for all of them."""
    if user.role == "admin":
        return True
    if not asked.resource:
        is_known = user.role is not None or asked.path.startswith(DISCOVERY_PATHS)
        return is_known and asked.verb in ("get", "head")
    if asked.verb == "create" and (asked.group, asked.resource) in OWN_REVIEWS:
        return True
    if user.role is None:
        return False
    hidden = asked.resource == "*" or (asked.resource == builtin.SECRET and asked.group in ("", "*"))
    return asked.verb in READING and not hidden


IMPERSONATE = Attributes("impersonate", resource="users")
"""Impersonation (`kubectl --as`), which admins may use."""


def refusal(user: User, asked: Attributes) -> errors.StatusError:
    """A 403 with Kubernetes' message."""
    if not asked.resource:
        told = f'forbidden: User "{user.name}" cannot {asked.verb} path "{asked.path}"'
        return errors.StatusError(403, "Forbidden", told, has_details=True)
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    why = (
        f'User "{user.name}" cannot {asked.verb} resource "{asked.full_resource}" '
        f'in API group "{asked.group}" {where}'
    )
    return errors.forbidden(asked.group, asked.resource, asked.name, why)


def rules(user: User, registry: Registry) -> tuple[list[Object], list[Object]]:
    """The user's permissions, as rules for resources and for other paths."""
    if user.role == "admin":
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        return [everything], [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
    readable: dict[str, set[str]] = {}
    for served in registry if user.role else ():
        if served.resource != builtin.SECRET and "get" in served.verbs:
            names = readable.setdefault(served.group, set())
            readable_parts = (name for name in served.all_subresources if name not in _WRITE_ONLY)
            names |= {served.plural, *(f"{served.plural}/{name}" for name in readable_parts)}
    found: list[Object] = [
        {"verbs": list(READING), "apiGroups": [group], "resources": sorted(names)}
        for group, names in sorted(readable.items())
    ]
    for group, resource in sorted(OWN_REVIEWS):
        found.append({"verbs": ["create"], "apiGroups": [group], "resources": [resource]})
    return found, [{"verbs": ["get"], "nonResourceURLs": ["*"]}]
