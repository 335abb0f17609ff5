"""Convert and validate each object, all errors at once."""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from headgate import api
from headgate.api import forms
from headgate.api.forms import Change, Conversion, Difference
from headgate.api.unattended import UNATTENDED
from headgate.cli.importing.own_routes import OwnRoutes
from headgate.cli.importing.report import Fault, ObjectReport, Outcome
from headgate.cli.importing.trees import tree_of
from headgate.cli.kinds import schema_of
from headgate.cli.manifests import Manifest
from headgate.cli.validation import Finding, judging
from headgate.cli.validation.kinds import Kinds
from headgate.controllers import relations
from headgate.kubeschema import structural

_OF_SERVER = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"),
    *("deletionTimestamp", "deletionGracePeriodSeconds"),
)
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_LEFT_BEHIND = {
    "ownerReferences": "left out: the object would be deleted with its owner",
    "finalizers": "left out: its controller may not be there to finish the deletion",
}
_SERVED = {
    (f"{definition['spec']['group']}/{definition['spec']['versions'][0]['name']}", kind): definition
    for definition in api.custom_definitions()
    if (kind := definition["spec"]["names"]["kind"])
}
_GROUPS = {version.partition("/")[0] for version, _ in (*_SERVED, *forms.FORMS, *forms.UNSERVED)}
_OF_OTHERS = {"gateway.networking.k8s.io", "autoscaling", "keda.sh"}
"""Groups of which other kinds have nothing to do with inference."""


_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_TOLD_ELSEWHERE = ("there is no ", ' is for "')


class Found(NamedTuple):
    """An object, and where it is from."""

    content: dict[str, Any]
    source: str
    manifest: Manifest | None = None
    """With positions, if it is from a file."""


class Taken(NamedTuple):
    """`objects`: what was made of the found ones, valid, in Headgate's kinds. Their metadata is that of the
    found ones, so that ages and owners are known; `to_create` is without."""

    reports: list[ObjectReport]
    objects: list[dict[str, Any]]
    rest: list[Found]
    """Objects of other kinds."""
    routed: frozenset[str] = frozenset()
    """Pools to which HTTPRoutes of Headgate's Gateways lead, each as kind, namespace and name."""


def take(found: Sequence[Found], namespace: str) -> Taken:
    """Convert and validate; `namespace` is that of objects that name none."""
    taken: list[_Taken] = []
    rest: list[Found] = []
    own = OwnRoutes((each.content for each in found), namespace)
    routed: set[str] = set()
    for each in found:
        one = _take(each, namespace, own)
        if one is None:
            rest.append(each)
        else:
            taken.append(one)
            if one.outcome == "own-route":
                routed.update(own.pools(one.found.content))
    twins: dict[int, int] = {}
    made = list(_unique(taken, twins))
    kept = {id(each.content) for each in made}
    faults, notes = _judged(made, rest, namespace)
    reports, objects = [], []
    for one in taken:
        of_rules = [fault for each in one.objects for fault in faults.get(twins.get(id(each), id(each)), ())]
        errors = (*one.errors, *of_rules)
        errors = errors or tuple(_unreadable(one.objects))
        if not errors:
            objects += [each for each in one.objects if id(each) in kept]
        told = tuple(note for each in one.objects for note in notes.get(id(each), ()))
        reports.append(one.report(errors, told))
    return Taken(reports, objects, rest, frozenset(routed))


def _unreadable(objects: Iterable[Mapping[str, Any]]) -> Iterator[Fault]:
    """Errors of valid objects that a gateway could not read."""
    for obj in objects:
        for kind in relations.KINDS.values():
            try:
                decoded([obj], kind)
            except msgspec.ValidationError as error:
                yield Fault("", str(error))


def to_create(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The object without its status and without metadata that a server or another controller writes."""
    found = obj.get("metadata")
    if not isinstance(found, Mapping):
        return {key: value for key, value in obj.items() if key != "status"}
    metadata = {key: found[key] for key in found if key not in _OF_SERVER and key not in _LEFT_BEHIND}
    annotations = metadata.get("annotations")
    if isinstance(annotations, Mapping) and _APPLIED in annotations:
        del metadata["annotations"]
        if others := {key: value for key, value in annotations.items() if key != _APPLIED}:
            metadata["annotations"] = others
    return {**{key: value for key, value in obj.items() if key != "status"}, "metadata": metadata}


class _Taken:
    """One found object while its report is made."""

    def __init__(self, found: Found, conversion: Conversion, outcome: Outcome) -> None:
        self.found = found
        self.objects = list(conversion.objects)
        self.outcome = outcome
        self.errors: list[Fault] = []
        self.changes = list(conversion.changes)
        self.differences = list(conversion.differences)
        self.remarks: list[Difference] = []
        """What is different about the outputs, if they are taken."""

    def report(self, errors: tuple[Fault, ...], notes: tuple[str, ...]) -> ObjectReport:
        content = self.found.content
        return ObjectReport(
            source=self.found.source,
            api_version=content["apiVersion"],
            object=named(content),
            outcome="refused" if errors else self.outcome,
            becomes=tuple(f"{each['apiVersion']} {named(each)}" for each in self.objects),
            changes=tuple(self.changes),
            differences=(*self.differences, *(() if errors else self.remarks)),
            errors=tuple(dict.fromkeys(errors)),
            notes=notes,
        )


def named(content: Mapping[str, Any]) -> str:
    """Kind, namespace and name."""
    metadata = content.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    where = metadata.get("namespace")
    return f"{content['kind']} {f'{where}/' if where else ''}{metadata.get('name') or '(no name)'}"


def _take(found: Found, namespace: str, own: OwnRoutes) -> _Taken | None:
    """None if the object has nothing to do with inference."""
    content = _placed(found.content, namespace)
    found = found._replace(content=content)
    identity = content["apiVersion"], content["kind"]
    if (unserved := forms.UNSERVED.get(identity)) is not None:
        if not unserved.concerns(content):
            return None
        kind = content["kind"]
        if kind == "HTTPRoute" and own.has(content):
            return _Taken(found, Conversion(()), "own-route")
        told = Difference("kind", kind, unserved.instead, unserved.fix)
        return _Taken(found, Conversion((), (), (told,)), "not-served")
    if (form := forms.FORMS.get(identity)) is not None:
        conversion = forms.convert(content, form)
        if identity in _SERVED and not conversion.changes and not conversion.differences:
            return _as_is(found)
        return _with_remarks(_Taken(found, conversion, "converted"))
    if identity in _SERVED:
        return _as_is(found)
    group = identity[0].partition("/")[0]
    if group not in _GROUPS or group in _OF_OTHERS:
        return None
    known = sorted(version for version, kind in (*_SERVED, *forms.FORMS) if kind == identity[1])
    fix = f"known versions are {', '.join(known)}" if known else ""
    told = Difference("apiVersion", content["apiVersion"], "this version of the kind is not known here", fix)
    return _Taken(found, Conversion((), (), (told,)), "not-served")


def _as_is(found: Found) -> _Taken:
    return _with_remarks(_Taken(found, Conversion((found.content,)), "as-is"))


def _with_remarks(taken: _Taken) -> _Taken:
    for obj in taken.objects:
        group, kind = obj["apiVersion"].partition("/")[0], obj["kind"]
        if (told := UNATTENDED.get((group, kind))) is not None:
            instead = f"{kind} is accepted and stored, but not acted upon yet"
            taken.remarks.append(Difference("kind", kind, instead, told))
        taken.remarks += forms.remarks(obj, forms.REMARKS)
    metadata = taken.found.content.get("metadata")
    if isinstance(metadata, Mapping):
        taken.errors += _misnamed(metadata)
    if taken.outcome == "converted" and isinstance(metadata, Mapping):
        taken.changes += [
            Change(f"metadata.{name}", "", why) for name, why in _LEFT_BEHIND.items() if metadata.get(name)
        ]
    return taken


def _misnamed(metadata: Mapping[str, Any]) -> Iterator[Fault]:
    """Errors in names that the rules for objects in files do not find."""
    if not metadata.get("name") and "generateName" in metadata:
        yield Fault("metadata.name", "is missing: generateName makes another object each time")
    namespace = metadata.get("namespace")
    if isinstance(namespace, str) and not _NAMESPACE.fullmatch(namespace):
        yield Fault("metadata.namespace", f"{namespace[:64]!r} is not a DNS label")


def _placed(content: dict[str, Any], namespace: str) -> dict[str, Any]:
    """With the namespace that it is in. Fields of its metadata that are null are not there."""
    metadata = content.get("metadata")
    if not isinstance(metadata, dict):
        return content
    said = {name: value for name, value in metadata.items() if value is not None}
    return {**content, "metadata": {**said, "namespace": said.get("namespace") or namespace}}


class _Made(NamedTuple):
    content: dict[str, Any]
    whole: _Taken


def _unique(taken: Iterable[_Taken], twins: dict[int, int]) -> Iterator[_Made]:
    """The objects that are made; of two with one name, that which needs no conversion. `twins` gets the
    identity of each equal one that is left out, with that of the other."""
    first: dict[tuple[str, str], _Made] = {}
    for one in sorted(taken, key=lambda each: each.outcome != "as-is"):
        for content in one.objects:
            identity = content["apiVersion"].partition("/")[0], named(content)
            holder = first.setdefault(identity, _Made(content, one))
            if holder.content is content:
                yield holder
            elif _spec(holder.content) == _spec(content):
                twins[id(content)] = id(holder.content)
                one.changes.append(
                    Change("metadata.name", "", f"{holder.whole.found.source} has the same object")
                )
            else:
                told = f"{holder.whole.found.source} has another {named(content)}"
                one.errors.append(Fault("metadata.name", told, "remove or rename one of the two"))


def _spec(content: Mapping[str, Any]) -> Any:
    """The spec as an API server stores it, with its defaults."""
    stored: dict[str, Any] = copy.deepcopy({"spec": content.get("spec")})
    definition = _SERVED[content["apiVersion"], content["kind"]]
    with contextlib.suppress(structural.DefaultsTooLarge):
        structural.default(schema_of(definition), stored)
    return stored.get("spec")


def _judged(
    made: Sequence[_Made], rest: Sequence[Found], namespace: str
) -> tuple[dict[int, list[Fault]], dict[int, list[str]]]:
    """Errors and warnings by the identity of the object, with the rules of `headgate validate`."""
    labels = {f"#{number}": each.content for number, each in enumerate(made)}
    manifests = [_manifest(label, each) for label, each in zip(labels, made, strict=True)]
    manifests += [each.manifest for each in rest if each.manifest is not None]
    faults: dict[int, list[Fault]] = {}
    notes: dict[int, list[str]] = {}
    for finding in judging.judge(manifests, Kinds(), namespace):
        content = labels.get(finding.file)
        if content is None:
            continue
        if finding.severity == "error":
            fault = Fault(finding.path, finding.message, finding.suggestion)
            faults.setdefault(id(content), []).append(fault)
        elif finding.severity == "warning" and not _is_told_elsewhere(finding):
            notes.setdefault(id(content), []).append(f"{finding.path}: {finding.message}")
    return faults, notes


def _manifest(label: str, made: _Made) -> Manifest:
    """The object as it would be created: what a server wrote into it is of no interest."""
    content = to_create(made.content)
    found = made.whole.found.manifest
    is_same = found is not None and made.whole.outcome == "as-is"
    return Manifest(label, content, found.tree if found is not None and is_same else tree_of(content))


def _is_told_elsewhere(finding: Finding) -> bool:
    """Kinds that nothing acts on, references, and names that others have: the report tells them itself."""
    told = finding.message
    return finding.path == "kind" or any(words in told for words in _TOLD_ELSEWHERE)


def decoded(objects: Iterable[Mapping[str, Any]], kind: type[Any]) -> list[Any]:
    """The objects of one kind, as a gateway reads them."""
    resource = kind.resource
    return [
        msgspec.convert(copy.deepcopy(dict(each)), kind)
        for each in objects
        if (each["apiVersion"], each["kind"]) == (resource.api_version, resource.kind)
    ]
