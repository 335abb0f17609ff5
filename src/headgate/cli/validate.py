"""`headgate validate`: check manifests without a server, with compiler-style errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headgate.cli import machine_state, options

if TYPE_CHECKING:
    from headgate.cli.manifests import Manifest
    from headgate.cli.validation import Finding


@click.command()
@options.files
@options.recursive
@click.option(
    "--crd",
    "crds",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="File or directory of CustomResourceDefinitions of additional kinds; repeatable.",
)
@click.option("-n", "--namespace", default="default", help="Namespace of objects that name none.")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, path_type=Path, dir_okay=False),
    help="Also check by dry runs on this API server: immutable fields, existing objects. So does --state.",
)
@options.state
@click.option("--context", help="Kubeconfig context. Default: the current one.")
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@options.output("text", "json", "github", help="Output format; github prints workflow annotations.")
def validate(
    files: tuple[str, ...],
    recursive: bool,
    crds: tuple[Path, ...],
    namespace: str,
    kubeconfig: Path | None,
    state: Path,
    context: str | None,
    strict: bool,
    output: str,
) -> None:
    """Check manifests without a server.

    Reports YAML errors, unknown and duplicate fields, wrong types and values, violated rules and duplicate
    objects, all at once, each with its line and a fix. Also checks scheduler configurations. Exits with 1
    if there are errors.

    Example: headgate validate -f examples/quickstart
    """
    from headgate.cli import validation
    from headgate.cli.manifests import read
    from headgate.cli.validation import judging, schedulers
    from headgate.cli.validation.kinds import Kinds

    kinds = Kinds()
    definitions = read([str(path) for path in crds])
    reading = read(files, recursive=recursive)
    objects, problems, of_schedulers = schedulers.taken_out(reading, namespace)
    findings = [validation.of_problem(problem) for problem in definitions.problems + problems]
    findings += judging.judge(definitions.manifests, kinds, namespace)
    findings += judging.judge(objects, kinds, namespace)
    said = machine_state.said_state(click.get_current_context())
    if kubeconfig or said:
        findings = _with_server(kubeconfig, context, said, objects, namespace, findings)
    findings += of_schedulers
    if not findings and not reading.manifests and not reading.bare:
        raise click.UsageError(f"no manifests in {', '.join(files)}; -R searches directories recursively")
    lines = definitions.lines | reading.lines
    for part in validation.render(output, findings, lines, len(reading.manifests) + len(reading.bare)):
        click.echo(part)
    fatal = {"error", "warning"} if strict else {"error"}
    if any(finding.severity in fatal for finding in findings):
        raise SystemExit(1)


def _with_server(
    kubeconfig: Path | None,
    context: str | None,
    state: Path | None,
    manifests: list[Manifest],
    namespace: str,
    findings: list[Finding],
) -> list[Finding]:
    from headgate.cli.objects import checking, connecting

    server = connecting.Server(kubeconfig, context, state)
    return connecting.run(server, lambda client: checking.check(client, manifests, namespace, findings))
