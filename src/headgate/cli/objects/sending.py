"""Apply manifests one by one, and report the result of each at its location."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from dataclasses import dataclass

import click
import msgspec

from headgate import api, cluster
from headgate.api import admission
from headgate.cli import applying, validation
from headgate.cli.manifests import Manifest
from headgate.cli.objects import printing
from headgate.cli.objects.printing import Object
from headgate.cli.validation import Finding
from headgate.kubeschema.structural import NO_FIELD, NOTES

_DEFINITION = "CustomResourceDefinition"
_ESTABLISHED_WITHIN_S = 10.0
"""How long to wait for a kind whose definition was just applied."""
_POLL_S = 0.2
_OWN = f'conflict with "{applying.FIELD_MANAGER}"'
_UNKNOWN = "unknown field"
_NOTES = frozenset(note.body() for note in NOTES)
_UNKNOWN_FIELD = re.compile(r'unknown field "([^"]+)"')


@dataclass(frozen=True, kw_only=True)
class Manner:
    """Options of the command line."""

    namespace: str | None
    dry_run: bool
    force_conflicts: bool
    field_manager: str
    output: str


@dataclass(frozen=True)
class Applied:
    resource: api.Resource
    obj: Object
    what: str
    """created, configured or unchanged."""
    warnings: list[Finding]

    @property
    def name(self) -> str:
        resource = self.resource
        group = f".{resource.group}" if resource.group else ""
        return f"{resource.kind.lower()}{group}/{self.obj['metadata']['name']}"


async def apply(client: cluster.Client, manifests: list[Manifest], manner: Manner) -> bool:
    """Apply in order and print the results; returns whether all succeeded. Unreachable ends it."""
    printed: list[Object] = []
    is_well = True
    defined: set[str] = set()
    for manifest in manifests:
        try:
            applied = await send(client, manifest, manner, defined)
        except cluster.Unreachable:
            raise
        except cluster.ApiError as error:
            is_well = False
            _complain(findings(manifest, error, manner.namespace or client.namespace))
            continue
        _complain(applied.warnings)
        if manifest.kind == _DEFINITION:
            defined.add(str(applied.obj.get("spec", {}).get("group")))
        printed += _tell(applied, manner)
    if printed:
        shown = printed[0] if len(manifests) == 1 else printing.together(printed)
        click.echo(printing.as_yaml(shown) if manner.output == "yaml" else printing.as_json(shown), nl=False)
    return is_well


def _tell(applied: Applied, manner: Manner) -> list[Object]:
    """Print the result; returns the object itself for formats that print all objects at the end."""
    if manner.output in ("yaml", "json"):
        return [printing.without_managed_fields(applied.obj)]
    if manner.output == "name":
        click.echo(applied.name)
    else:
        click.echo(f"{applied.name} {applied.what}{' (server dry run)' if manner.dry_run else ''}")
    return []


async def send(
    client: cluster.Client, manifest: Manifest, manner: Manner, defined: Collection[str] = ()
) -> Applied:
    """Apply one manifest; `defined` are API groups of kinds that the server may not serve yet.

    Raises ApiError.
    """
    resource = await _resource_of(client, manifest, defined)
    meta = manifest.content["metadata"]
    namespace = meta.get("namespace") or manner.namespace
    if manner.namespace and resource.namespaced and namespace != manner.namespace:
        raise cluster.ApiError(
            f"the manifest is in namespace {namespace}, but --namespace is {manner.namespace}"
        )
    path = client.path_of(resource, meta["name"], namespace)
    before = await _stored(client, path)
    content = manifest.content
    if resource.namespaced:
        content = {**content, "metadata": {**meta, "namespace": namespace or client.namespace}}
    answer = await _patch(client, path, content, manner)
    after: Object = msgspec.json.decode(answer.body)
    where = after["metadata"].get("namespace", "")
    # A server that fills in defaults first cannot see which fields were omitted.
    told = dict.fromkeys((*answer.warnings, *admission.warnings_of_written(manifest.content)))
    warnings = [_warning(manifest, warning, where) for warning in told]
    return Applied(resource, after, _change(before, after), warnings)


async def _patch(client: cluster.Client, path: str, content: Object, manner: Manner) -> cluster.Answer:
    """Send the apply request; takes over fields that `headgate up` manages."""
    query = {
        "fieldManager": manner.field_manager,
        "force": "true" if manner.force_conflicts else "false",
        "fieldValidation": "Strict",
        "dryRun": "All" if manner.dry_run else None,
    }
    kind = cluster.PatchType.APPLY.value
    try:
        return await client.ask("PATCH", path, content, query=query, content_type=kind)
    except cluster.Conflict as error:
        if not error.causes or not all(_OWN in cause.message for cause in error.causes):
            raise
    return await client.ask("PATCH", path, content, query={**query, "force": "true"}, content_type=kind)


async def _stored(client: cluster.Client, path: str) -> Object | None:
    try:
        found: Object = msgspec.json.decode((await client.ask("GET", path)).body)
    except cluster.NotFound:
        return None
    return found


def _change(before: Object | None, after: Object) -> str:
    if before is None:
        return "created"
    return "unchanged" if _essence(before) == _essence(after) else "configured"


def _essence(obj: Object) -> Object:
    """The object without fields that any write changes."""
    kept = {
        name: value
        for name, value in obj["metadata"].items()
        if name not in ("managedFields", "resourceVersion", "generation")
    }
    return {**obj, "metadata": kept}


async def _resource_of(client: cluster.Client, manifest: Manifest, defined: Collection[str]) -> api.Resource:
    """Look up the kind; a kind that was just defined may take a moment to appear."""
    api_version = manifest.content["apiVersion"]
    is_new = api_version.partition("/")[0] in defined
    deadline = asyncio.get_running_loop().time() + (_ESTABLISHED_WITHIN_S if is_new else 0)
    while True:
        try:
            return await client.resource_of(api_version, manifest.kind)
        except cluster.NotFound as error:
            if asyncio.get_running_loop().time() >= deadline:
                message = f"the server has no kind {manifest.kind} of {api_version}"
                raise NoKind(message, status_code=404) from error
        await asyncio.sleep(_POLL_S)


class NoKind(cluster.ApiError):
    """The server does not serve this kind."""


# -- complaints


def findings(manifest: Manifest, error: cluster.ApiError, namespace: str) -> list[Finding]:
    """Findings for an API error, each cause at its field.

    For the kinds that this version knows, the suggested fixes come from its types.
    """
    # Only errors need all kinds and their rules, whose import takes as long as everything else together.
    from headgate.cli.validation import judging
    from headgate.cli.validation.kinds import Kinds

    kinds = Kinds()
    namespace = judging.scope(manifest, kinds.find(manifest.content["apiVersion"], manifest.kind), namespace)
    here = judging.judge([manifest], kinds, namespace)
    told = _by_field(error)
    if told:
        suggestions = {finding.path: finding.suggestion for finding in here}
        refused = [_refused(manifest, path, message, namespace, suggestions) for path, message in told]
        return sorted(refused, key=lambda finding: finding.order)
    if error.reason == "BadRequest" and (known := [each for each in here if each.severity == "error"]):
        # Local findings name each field that the server could not parse.
        return sorted(known, key=lambda finding: finding.order)
    path = "kind" if isinstance(error, NoKind) else ""
    message = error.message if error.status_code in (0, 404) else f"{error.reason}: {error.message}"
    suggestion = _remedy(manifest, error)
    return [validation.about(manifest, path, message, namespace=namespace, suggestion=suggestion)]


def _refused(
    manifest: Manifest, path: str, message: str, namespace: str, suggestions: dict[str, str]
) -> Finding:
    suggestion = suggestions.get(path, "")
    if message == _UNKNOWN:
        return validation.unknown_field(manifest, path, namespace=namespace, suggestion=suggestion)
    return validation.about(manifest, path, message, namespace=namespace, suggestion=suggestion)


def _by_field(error: cluster.ApiError) -> list[tuple[str, str]]:
    """Field paths, and the error at each."""
    if error.reason == "Invalid":
        return [
            (
                "" if cause.field == NO_FIELD else cause.field,
                cause.message.replace(f"{cause.field} in body ", "", 1),
            )
            for cause in error.causes
            if cause.message not in _NOTES or len(error.causes) == 1
        ]
    _, is_strict, complaints = error.message.partition("strict decoding error: ")
    return [(path, _UNKNOWN) for path in _UNKNOWN_FIELD.findall(complaints)] if is_strict else []


def _remedy(manifest: Manifest, error: cluster.ApiError) -> str:
    if isinstance(error, NoKind):
        from headgate.cli.validation.kinds import Kinds

        return Kinds().advice(manifest.content["apiVersion"], manifest.kind) or (
            "apply its CustomResourceDefinition first; `headgate crds` prints those of Headgate's kinds"
        )
    if any(cause.reason == "FieldManagerConflict" for cause in error.causes):
        return "remove the fields from the manifest, or take them over with --force-conflicts"
    if error.status_code == 403:
        return "the user of the kubeconfig may not do this; use another one with --kubeconfig or --context"
    return ""


def _warning(manifest: Manifest, warning: str, namespace: str) -> Finding:
    path, colon, message = warning.partition(": ")
    if not colon or not path.startswith(("spec", "metadata", "data", "type")) or " " in path:
        path, message = "", warning
    return validation.about(manifest, path, message, namespace=namespace, severity="warning")


def _complain(found: list[Finding]) -> None:
    for finding in found:
        click.echo(validation.line(finding), err=True)
