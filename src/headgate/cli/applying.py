"""Apply manifests without overwriting later edits: an unchanged manifest leaves its object alone."""

import msgspec
import xxhash

from headgate import cluster
from headgate.api import marks
from headgate.cli.manifests import Manifest

FIELD_MANAGER = "headgate-up"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Written as kubectl writes it, so that `kubectl apply` of an edited file knows which fields were removed."""


class Outcome(msgspec.Struct, frozen=True):
    """The result of applying one manifest."""

    manifest: Manifest
    changed: bool = False
    error: str = ""


async def apply_all(client: cluster.Client, manifests: list[Manifest]) -> list[Outcome]:
    """Apply manifests in order; continue after an error, so that all errors are reported at once."""
    return [await _apply(client, manifest) for manifest in manifests]


async def _apply(client: cluster.Client, manifest: Manifest) -> Outcome:
    try:
        resource = await client.resource_of(manifest.content["apiVersion"], manifest.kind)
        metadata = manifest.content["metadata"]
        content = msgspec.json.encode(manifest.content, order="deterministic")
        digest = xxhash.xxh3_64_hexdigest(content)
        try:
            stored = await client.get_manifest(resource, metadata.get("name", ""), metadata.get("namespace"))
            if stored["metadata"].get("annotations", {}).get(marks.MANIFEST_HASH) == digest:
                return Outcome(manifest)
        except cluster.NotFound:
            pass
        notes = {
            **(metadata.get("annotations") or {}),
            LAST_APPLIED: content.decode() + "\n",
            marks.MANIFEST_HASH: digest,
        }
        marked = {**manifest.content, "metadata": {**metadata, "annotations": notes}}
        await client.apply_manifest(marked, field_manager=FIELD_MANAGER, force=True)
        return Outcome(manifest, changed=True)
    except cluster.ApiError as error:
        return Outcome(manifest, error=_explained(error))


def _explained(error: cluster.ApiError) -> str:
    """The error message; if the error has several causes, one line for each."""
    if len(error.causes) < 2:
        return error.message
    subject = error.message.partition(" is invalid")[0]
    return "\n    ".join(
        (f"{subject} is invalid:", *(f"{cause.field}: {cause.message}" for cause in error.causes))
    )
