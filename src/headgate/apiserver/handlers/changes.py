"""A requested write: how its body is processed, in the server or in its helper process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import msgspec

from headgate.apiserver import errors, patch
from headgate.apiserver.deletion import DeleteOptions
from headgate.apiserver.handlers import bodies
from headgate.apiserver.objects import Objects, Outcome
from headgate.apiserver.targets import Target, WriteOptions

__all__ = ["Change", "decode", "write"]

Verb = Literal["create", "update", "apply", "bind", "json", "merge", "strategic"]


class Change(msgspec.Struct, frozen=True):
    """A write of one object; the last three verbs are kinds of patches."""

    verb: Verb
    media: str
    body: bytes
    options: WriteOptions


def decode(change: Change, *, quickly: bool = False) -> tuple[Any, list[str]]:
    """The value of the body, and messages about duplicate fields.

    With `quickly`, raises bodies.SlowYAMLError for YAML that takes long.
    """
    if change.verb not in patch.KINDS:
        return bodies.decode_object(change.body, change.media, quickly=quickly)
    value, complaints = bodies.decode_json(change.body)
    if change.verb == "json":
        complaints = [f"json patch {complaint}" for complaint in complaints]
    return value, complaints


def write(objects: Objects, target: Target, change: Change, value: Any, complaints: list[str]) -> Outcome:
    """Perform the write with a value that it may modify, or raise UnansweredError and store nothing."""
    options = change.options
    match change.verb:
        case "create":
            return objects.create(target, value, options, complaints)
        case "update":
            return objects.update(target, value, options, complaints)
        case "apply":
            return objects.apply(target, value, options, complaints)
        case "bind":
            return bind(objects, target, value, options)
        case kind:
            return objects.patch(target, kind, value, options, complaints)


# Special operations on Pods: evictions and bindings, and unsupported ones with an alternative.
#
# exec, attach, port-forward and proxy need a container runtime, which does not exist here: the containers of
# a Headgate node are processes of this machine, at addresses of this machine.
Object = dict[str, Any]

NOT_HERE = frozenset({"attach", "exec", "portforward", "proxy"})
_INSTEAD = {
    "attach": "follow what it prints with `kubectl logs -f {name}`",
    "exec": "run the command in a shell of the machine",
    "portforward": "connect to {address} itself",
    "proxy": "connect to {address} itself",
}


def refusal(objects: Objects, target: Target) -> errors.StatusError:
    """A 405 that names the alternative; 404 for a Pod that does not exist."""
    pod = objects.get(replace(target, subresource=""))
    address = (pod.get("status") or {}).get("podIP") or "the Pod's address (status.podIP)"
    instead = _INSTEAD[target.subresource].format(name=target.name, address=address)
    told = (
        f"pods/{target.subresource} is not served: the containers of a Headgate node are processes of its "
        f"machine; {instead}"
    )
    return errors.StatusError(405, "MethodNotAllowed", told, name=target.name, kind="pods")


def evict(objects: Objects, target: Target, eviction: Object, options: WriteOptions) -> Object:
    """Delete the Pod gracefully, as policy/v1 Eviction asks. There are no disruption budgets."""
    _check(eviction, target, ("policy/v1", "Eviction"))
    how = msgspec.convert(eviction.get("deleteOptions") or {}, DeleteOptions)
    pod = replace(target, subresource="")
    objects.delete(pod, how, dry_run=options.dry_run or bool(how.dry_run))
    return done()


def bind(objects: Objects, target: Target, binding: Object, options: WriteOptions) -> Outcome:
    """Assign the Pod to a node, as a scheduler's Binding asks; 409 if it already has one."""
    _check(binding, target, ("v1", "Binding"))
    to = binding.get("target")
    to = to if isinstance(to, dict) else {}
    if (kind := to.get("kind") or "Node") != "Node":
        raise errors.bad_request(f'target.kind: Unsupported value: "{kind}": supported values: "Node"')
    if not isinstance(node := to.get("name"), str) or not node:
        raise errors.bad_request("target.name: Required value")
    pod = replace(target, subresource="")
    obj = objects.get(pod)
    if taken := obj["spec"].get("nodeName"):
        why = f'pod {target.name} is already assigned to node "{taken}"'
        raise errors.conflict("", "pods/binding", target.name, why)
    obj["spec"]["nodeName"] = node
    for name in ("annotations", "labels"):
        if isinstance(given := binding["metadata"].get(name), dict):
            obj["metadata"][name] = obj["metadata"].get(name, {}) | given
    return objects.update(pod, obj, options, [])


def check(asked: Object, what: tuple[str, str]) -> None:
    """400 unless the body has this version and kind; adds metadata to it."""
    said = (asked.get("apiVersion") or what[0], asked.get("kind") or what[1])
    if said != what:
        raise errors.bad_request(f"a {what[0]} {what[1]} is needed here, not a {said[0]} {said[1]}")
    meta = asked.setdefault("metadata", {})
    if not isinstance(meta, dict):
        raise errors.bad_request("metadata: must be an object")


def _check(asked: Object, target: Target, what: tuple[str, str]) -> None:
    """400 unless the body has this version and kind and is about this Pod; adds metadata to it."""
    check(asked, what)
    if (name := asked["metadata"].get("name")) not in (None, "", target.name):
        told = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        raise errors.bad_request(told)


def done() -> Object:
    """The response to an eviction or a binding."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
