"""`headgate validate --kubeconfig`: check manifests against an API server by dry runs."""

from __future__ import annotations

import dataclasses

from headgate import cluster
from headgate.cli.manifests import Manifest
from headgate.cli.objects import sending
from headgate.cli.validation import Finding, judging
from headgate.cli.validation.kinds import Kinds

_AMONG = " among these manifests"
_MISSING = "there is no "
_MANNER = sending.Manner(
    namespace=None, dry_run=True, force_conflicts=True, field_manager="headgate", output="text"
)


async def check(
    client: cluster.Client, manifests: list[Manifest], namespace: str, here: list[Finding]
) -> list[Finding]:
    """Merge `here`, the findings made without the server, with the server's findings.

    The server knows the previous state of an object and which objects exist; it does not know the other
    manifests. So a target is missing only if both say so. Objects with errors are not sent. Raises
    Unreachable.
    """
    known = list(here)
    kinds = Kinds()
    for manifest in manifests:
        own = [finding for finding in here if _is_within(finding, manifest)]
        if any(finding.severity == "error" for finding in own) or not _name(manifest):
            continue
        try:
            kind = kinds.find(manifest.content["apiVersion"], manifest.kind)
            where = judging.scope(manifest, kind, namespace)
            sent = _in_namespace(manifest, where) if kind else manifest
            there = (await sending.send(client, sent, _MANNER)).warnings
        except cluster.Unreachable:
            raise
        except cluster.ApiError as error:
            if _is_made_by_these(error, manifests):
                continue
            there = sending.findings(manifest, error, namespace)
        known = _merged(known, own, there)
    return known


def _is_within(finding: Finding, manifest: Manifest) -> bool:
    begin, end = manifest.tree.span
    return finding.file == manifest.file and finding.span is not None and begin <= finding.span.start <= end


def _name(manifest: Manifest) -> str:
    """The name that the server may have the object under; "" for generateName, which cannot be looked up."""
    name = (manifest.content.get("metadata") or {}).get("name")
    return name if isinstance(name, str) else ""


def _in_namespace(manifest: Manifest, namespace: str) -> Manifest:
    if not namespace:
        return manifest
    metadata = {**manifest.content["metadata"], "namespace": namespace}
    return dataclasses.replace(manifest, content={**manifest.content, "metadata": metadata})


def _is_made_by_these(error: cluster.ApiError, manifests: list[Manifest]) -> bool:
    """Whether the namespace or kind that the server lacks is among the manifests."""
    if isinstance(error, sending.NoKind):
        return any(manifest.kind == "CustomResourceDefinition" for manifest in manifests)
    return isinstance(error, cluster.NotFound) and any(
        manifest.kind == "Namespace" and error.message == f'namespaces "{_name(manifest)}" not found'
        for manifest in manifests
    )


def _merged(known: list[Finding], own: list[Finding], there: list[Finding]) -> list[Finding]:
    """Merge findings; `own` are those in `known` about the object that was sent to the server."""
    warned = {(finding.path, finding.span) for finding in own}
    told = {(finding.path, finding.span) for finding in there}
    # Drop local warnings that the server disproves: it knows the kind, or has an object missing from the
    # manifests.
    obsolete = [
        finding
        for finding in own
        if finding.severity == "note"
        or (_AMONG in finding.message and (finding.path, finding.span) not in told)
    ]
    kept = [finding for finding in known if finding not in obsolete]
    said = {(finding.path, finding.span, finding.message.replace(_AMONG, "")) for finding in kept}
    return kept + [
        finding
        for finding in there
        if (finding.path, finding.span, finding.message) not in said
        and not (finding.message.startswith(_MISSING) and (finding.path, finding.span) not in warned)
    ]
