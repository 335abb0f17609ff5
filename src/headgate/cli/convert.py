"""`headgate convert`: convert InferencePools between API versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from headgate.cli import options

if TYPE_CHECKING:
    from headgate.api import ObjectMeta
    from headgate.cli.manifests import Manifest, Reading

_SERVER_WRITES: Final = {
    "uid": "",
    "resource_version": "",
    "generation": 0,
    "creation_timestamp": "",
    "deletion_timestamp": None,
    "deletion_grace_period_seconds": None,
}
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@click.command()
@options.files
@options.recursive
@click.option(
    "--to",
    "version",
    type=click.Choice(["v1", "v1alpha1"]),
    default="v1",
    help="v1: inference.networking.k8s.io; v1alpha1: inference.networking.x-k8s.io.",
)
@options.output("yaml", "json", help="Output format; json prints one List.")
def convert(files: tuple[str, ...], recursive: bool, version: str, output: str) -> None:
    """Print InferencePools in another API version.

    Nothing is lost: fields that the other version lacks are kept in an annotation and restored when
    converting back. A pool that the other version would reject is an error. Status, and metadata that a
    server writes, are omitted: the result is an object to create. Other kinds are skipped.

    Example: kubectl get inferencepools.inference.networking.x-k8s.io -o yaml | headgate convert -f -
    """
    import json

    import yaml

    from headgate.cli.manifests import read

    reading = read(files, recursive=recursive)
    pools = [manifest for manifest in reading.manifests if manifest.kind == "InferencePool"]
    _refuse_invalid(reading, pools)
    if not pools:
        raise click.ClickException(f"no InferencePools in {', '.join(files)}")
    converted = [_converted(pool, version) for pool in pools]
    if output == "json":
        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": converted}, indent=4))
    else:
        click.echo(yaml.safe_dump_all(converted, sort_keys=False, allow_unicode=True), nl=False)
    if left_out := len(reading.manifests) - len(pools):
        click.echo(f"skipped, not InferencePools: {left_out}", err=True)


def _refuse_invalid(reading: Reading, pools: list[Manifest]) -> None:
    """Print errors in the pools as `headgate validate` does, and exit if there are any."""
    from headgate.cli import validation
    from headgate.cli.validation import judging
    from headgate.cli.validation.kinds import Kinds

    findings = [validation.of_problem(problem) for problem in reading.problems]
    findings += judging.judge(pools, Kinds(), "default")
    errors = [finding for finding in findings if finding.severity == "error"]
    for part in validation.render("text", errors, reading.lines, len(pools)) if errors else ():
        click.echo(part, err=True)
    if errors:
        raise SystemExit(1)


def _converted(manifest: Manifest, version: str) -> dict[str, Any]:
    import msgspec

    from headgate.api import gie_v1, gie_v1alpha1, pool_conversion

    pool: gie_v1.InferencePool | gie_v1alpha1.InferencePool
    stable = gie_v1.InferencePool.resource.api_version
    try:
        if manifest.content["apiVersion"] == stable:
            v1 = msgspec.convert(manifest.content, gie_v1.InferencePool)
            v1 = msgspec.structs.replace(v1, metadata=_writable(v1.metadata), status=None)
            pool = v1 if version == "v1" else pool_conversion.to_v1alpha1(v1)
        else:
            alpha = msgspec.convert(manifest.content, gie_v1alpha1.InferencePool)
            alpha = msgspec.structs.replace(alpha, metadata=_writable(alpha.metadata), status=None)
            pool = alpha if version == "v1alpha1" else pool_conversion.to_v1(alpha)
    except ValueError as problem:
        raise click.ClickException(f"{manifest.source}: {problem}") from problem
    plain: dict[str, Any] = msgspec.to_builtins(pool)
    return plain


def _writable(metadata: ObjectMeta) -> ObjectMeta:
    """Remove fields that only a server writes, and kubectl's last-applied annotation of the old kind."""
    import msgspec

    annotations = {key: value for key, value in metadata.annotations.items() if key != _APPLIED}
    return msgspec.structs.replace(metadata, annotations=annotations, **_SERVER_WRITES)
