"""`headgate validate --kubeconfig`: what an API server says to manifests, by dry runs that store nothing."""

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
    """The findings of `here`, which were made without the server, together with the server's.

    The server knows what an object was before and what exists there; it does not know the other manifests.
    So a target is missing only if both say so. Objects with errors are not sent. Raises Unreachable.
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
    """The name under which the server may have the object; one that is yet to be made cannot be asked for."""
    name = (manifest.content.get("metadata") or {}).get("name")
    return name if isinstance(name, str) else ""


def _in_namespace(manifest: Manifest, namespace: str) -> Manifest:
    if not namespace:
        return manifest
    metadata = {**manifest.content["metadata"], "namespace": namespace}
    return dataclasses.replace(manifest, content={**manifest.content, "metadata": metadata})


def _is_made_by_these(error: cluster.ApiError, manifests: list[Manifest]) -> bool:
    """Whether the namespace or the kind that the server does not have is among the manifests."""
    if isinstance(error, sending.NoKind):
        return any(manifest.kind == "CustomResourceDefinition" for manifest in manifests)
    return isinstance(error, cluster.NotFound) and any(
        manifest.kind == "Namespace" and error.message == f'namespaces "{_name(manifest)}" not found'
        for manifest in manifests
    )


def _merged(known: list[Finding], own: list[Finding], there: list[Finding]) -> list[Finding]:
    """`own` are those of `known` that are about the object that the server was asked about."""
    warned = {(finding.path, finding.span) for finding in own}
    told = {(finding.path, finding.span) for finding in there}
    # The server has the kind, or has what was only not among the manifests.
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
