"""Review kinds: posted, answered in their status, and never stored.

Used by `kubectl auth whoami` and `kubectl auth can-i`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from headgate.apiserver import authorization, errors
from headgate.apiserver.authorization import Attributes
from headgate.apiserver.registry import Registry
from headgate.apiserver.targets import Target
from headgate.apiserver.users import AUDIENCE, Authenticator, User
from headgate.kubeschema import structural
from headgate.kubeschema.structural import FieldError

Object = dict[str, Any]
Schema = dict[str, Any]


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _object(description: str, **properties: Schema) -> Schema:
    return {"type": "object", "description": description, "properties": properties}


_RESOURCE = _object(
    "Access to objects; * stands for all.",
    namespace=_text("Namespace of the objects; empty for all, or for kinds that have none."),
    verb=_text("get, list, watch, create, update, patch, delete, deletecollection or *."),
    group=_text("API group of the kind."),
    version=_text("Version of the group."),
    resource=_text("Name of the kind in URLs."),
    subresource=_text("Part of the object, such as status."),
    name=_text("Name of one object."),
)
_PATH = _object(
    "Access to a path that is not an object.", path=_text("The path."), verb=_text("The HTTP verb.")
)
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXTS = {"type": "array", "items": {"type": "string"}}


def _definition(group: str, kind: str, description: str, spec: Schema | None) -> Object:
    """In the form of a CustomResourceDefinition, like every registered kind."""
    properties = {"status": _ANYTHING} | ({"spec": spec} if spec else {})
    schema = {"type": "object", "description": description, "properties": properties}
    if spec:
        schema["required"] = ["spec"]
    plural = f"{kind.lower()}s"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }


DEFINITIONS = (
    _definition(
        "authentication.k8s.io", "SelfSubjectReview", "SelfSubjectReview returns the user who sent it.", None
    ),
    _definition(
        "authentication.k8s.io",
        "TokenReview",
        "TokenReview returns the user of a token.",
        _object("The question.", token=_text("The bearer token."), audiences=_TEXTS),
    ),
    _definition(
        "authorization.k8s.io",
        "SelfSubjectAccessReview",
        "SelfSubjectAccessReview returns whether its sender may perform an action.",
        _object(
            "The action, as one of the two attributes.",
            resourceAttributes=_RESOURCE,
            nonResourceAttributes=_PATH,
        ),
    ),
    _definition(
        "authorization.k8s.io",
        "SelfSubjectRulesReview",
        "SelfSubjectRulesReview returns everything that its sender may do in a namespace.",
        _object("The question.", namespace=_text("The namespace.")),
    ),
)


class Asked(NamedTuple):
    """A review, and what is needed to answer it."""

    target: Target
    spec: Object
    user: User
    registry: Registry
    authenticator: Authenticator


def answer(
    target: Target, obj: Object, user: User, registry: Registry, authenticator: Authenticator
) -> Object:
    """The review with its status; 422 with all errors of an invalid one."""
    served = target.served
    body = {name: value for name, value in obj.items() if name in ("spec", "status")}
    structural.prune(served.schema, body)
    if found := structural.validate(served.schema, body):
        raise target.invalid(*found)
    asked = Asked(target, body.get("spec") or {}, user, registry, authenticator)
    status = _ANSWERS[served.kind](asked)
    return {
        "kind": served.kind,
        "apiVersion": served.api_version,
        "metadata": {"creationTimestamp": None},
        **({"spec": body["spec"]} if "spec" in body else {}),
        "status": status,
    }


def _user_info(user: User) -> Object:
    return {"username": user.name, "uid": user.uid or user.name, "groups": list(user.groups)}


def _self(asked: Asked) -> Object:
    return {"userInfo": _user_info(asked.user)}


def _token(asked: Asked) -> Object:
    user = asked.authenticator.bearer(asked.spec.get("token", ""))
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    wanted = asked.spec.get("audiences") or [AUDIENCE]
    audiences = [each for each in wanted if each in user.audiences]
    if not audiences:
        told = f"token audiences {list(user.audiences)} is invalid for the target audiences {wanted}"
        return {"user": {}, "error": told}
    return {"authenticated": True, "user": _user_info(user), "audiences": audiences}


def _access(asked: Asked) -> Object:
    resource: Object | None = asked.spec.get("resourceAttributes")
    path: Object | None = asked.spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        error = FieldError("FieldValueInvalid", "spec.resourceAttributes", detail, resource)
        raise asked.target.invalid(error)
    if path is not None:
        wanted = Attributes(path.get("verb", ""), path.get("path", ""))
    else:
        names = ("verb", "group", "resource", "subresource", "namespace", "name")
        wanted = Attributes(**{name: (resource or {}).get(name, "") for name in names})
    if not authorization.allows(asked.user, wanted):
        return {"allowed": False}
    return {"allowed": True, "reason": f"the token of {asked.user.name} is {asked.user.role}"}


def _rules(asked: Asked) -> Object:
    if not asked.spec.get("namespace"):
        raise errors.bad_request("no namespace on request")
    resources, paths = authorization.rules(asked.user, asked.registry)
    return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}


_ANSWERS: dict[str, Callable[[Asked], Object]] = {
    "SelfSubjectReview": _self,
    "TokenReview": _token,
    "SelfSubjectAccessReview": _access,
    "SelfSubjectRulesReview": _rules,
}
