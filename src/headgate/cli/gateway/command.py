"""`headgate gateway`: the command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headgate.cli import machine_state, options
from headgate.cli.gateway import flags as gateway_flags

if TYPE_CHECKING:
    from headgate.cli.gateway.self_signed import Files
    from headgate.cli.validation import Finding
    from headgate.gateway import GatewaySettings

_KUBECONFIG = "kubernetes_kubeconfig"
"""The setting that --state provides."""


@click.command(cls=gateway_flags.GatewayCommand)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="YAML file of settings, in the sections shown below. Changes are applied while serving.",
)
@click.option(
    "--check-config",
    is_flag=True,
    help="Check all settings and exit; the exit code is 1 if there are errors.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "github"]),
    help="Output format of --check-config; github prints workflow annotations. Default: text.",
)
@click.option(
    "--show-settings",
    is_flag=False,
    flag_value="table",
    type=click.Choice(["table", "json", "yaml"]),
    help="Print every setting and the origin of its value, and exit; yaml prints a file of all set ones.",
)
@click.option(
    "--print-objects",
    is_flag=True,
    help="Ask the engines of --endpoint once, print their objects as YAML for `kubectl apply`, and exit.",
)
@click.option(
    "--tls-self-signed",
    is_flag=True,
    help="Serve HTTPS with a self-signed certificate, for a first try. It is kept in the state directory.",
)
@options.state
@gateway_flags.of_settings
def gateway(
    config: Path | None,
    state: Path,
    check_config: bool,
    output: str | None,
    show_settings: str | None,
    print_objects: bool,
    tls_self_signed: bool,
    flags: dict[str, Any],
) -> None:
    """Serve inference requests as the objects of an API server define, or the engines of --endpoint.

    Each setting can be given as a flag, as an environment variable (HEADGATE_LISTEN_PORT for --listen-port),
    or in the file of --config, in this order of precedence.

    Example: headgate gateway --endpoint http://gpu-1:8000 --endpoint http://gpu-2:8000
    """
    from headgate.cli.gateway import configuration, running, showing
    from headgate.cli.objects.connecting import Server

    if output is not None and not check_config:
        raise click.UsageError("--output goes with --check-config; --show-settings takes the format itself")
    said = machine_state.said_state(click.get_current_context())
    try:
        own_certificate = _self_signed(config, flags, state) if tls_self_signed else None
        if said is not None and _needs_server(config, flags):
            flags.setdefault(_KUBECONFIG, str(said / "kubeconfig"))
        if show_settings is not None:
            click.echo(showing.show(show_settings, configuration.load_with_origins(config, flags)))
        elif check_config:
            _check(config, flags, output or "text")
        else:
            settings = configuration.judge(config, flags).settings
            if print_objects:
                _print_objects(settings)
                return
            own = Server(None).own
            has_server = settings.kubernetes.kubeconfig is not None or settings.objects.are_given
            if own is not None and not has_server:
                flags[_KUBECONFIG] = str(own)
            running.run(config, flags, own_certificate)
    except configuration.ConfigurationErrors as error:
        click.echo(error.shown(), err=True)
        raise SystemExit(error.exit_code) from error


def _needs_server(config: Path | None, flags: dict[str, Any]) -> bool:
    """Whether objects come from an API server; false for settings with errors, which are reported later."""
    from headgate.cli.gateway import configuration

    try:
        return not configuration.judge(config, flags).settings.objects.are_given
    except configuration.ConfigurationErrors:
        return False


def _print_objects(settings: GatewaySettings) -> None:
    """Print what engines serve as objects; the exit code is 1 if some did not answer."""
    from headgate.cli.gateway import own_objects

    if not settings.objects.are_given:
        raise click.UsageError("--print-objects needs --endpoint or --objects")
    text, problems = own_objects.printed(settings)
    click.echo(text, nl=False)
    for problem in problems:
        click.echo(f"Error: {problem}", err=True)
    if problems:
        raise SystemExit(1)


def _of_objects(settings: GatewaySettings) -> list[Finding]:
    """The warnings about files of objects. Raises ConfigurationErrors."""
    from headgate.cli.gateway import own_objects

    return own_objects.check(settings) if settings.objects.files else []


def _self_signed(config: Path | None, flags: dict[str, Any], state: Path) -> Files:
    """The self-signed certificate, which is added to the flags."""
    from headgate.cli import process
    from headgate.cli.gateway import configuration, self_signed

    places = configuration.places(config, flags)
    for path in ("tls.cert_files", "tls.key_files", "tls.secrets"):
        if path in places:
            told = f"--tls-self-signed stands for a certificate, but {path} is set, too, by {places[path]}"
            raise click.UsageError(f"{told}: give either one or the other")
    with process.explained(OSError):
        found = self_signed.files(state)
        flags["tls_cert_files"], flags["tls_key_files"] = [str(found.cert)], [str(found.key)]
        return self_signed.files(state, configuration.judge(config, flags).settings.listen.host)


def _check(config: Path | None, flags: dict[str, Any], output: str) -> None:
    """Print all errors and ineffective settings; errors in text form go to standard error."""
    from headgate.cli import validation
    from headgate.cli.gateway import configuration

    if output == "text":
        loaded = configuration.judge(config, flags)
        findings = loaded.findings + _of_objects(loaded.settings)
        if findings:
            click.echo(validation.paragraphs(findings, loaded.lines), err=True)
        click.echo(f"{config or 'the configuration'} is valid")
        return
    try:
        loaded = configuration.judge(config, flags)
        findings, lines = loaded.findings + _of_objects(loaded.settings), loaded.lines
    except configuration.ConfigurationErrors as error:
        findings, lines = error.findings, error.lines
    for part in validation.render(output, findings, lines):
        click.echo(part)
    if any(finding.severity == "error" for finding in findings):
        raise SystemExit(1)
