"""Apply the Model of a command line, on a machine that runs or is started, and report what becomes of it."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import click
from rich.console import Console

from headgate import cluster, node
from headgate.cli import machine, machine_state, process, validation
from headgate.cli.gateway import configuration
from headgate.cli.manifests import Manifest, read_text
from headgate.cli.model import building, following
from headgate.cli.model.building import Wanted, model_of
from headgate.cli.model.places import Place
from headgate.cli.model.sources import LocalClaim, SourceError
from headgate.cli.objects import connecting, printing, sending
from headgate.cli.progress import Progress
from headgate.cli.supervisor import StateInUse, StateUnusable
from headgate.cli.validation import judging
from headgate.cli.validation.kinds import Kinds

__all__ = ["Job", "serve", "show"]

_LABEL = "<headgate serve>"
_MODEL = "model"
_MANNER = sending.Manner(
    namespace=None, dry_run=False, force_conflicts=False, field_manager="headgate", output="text"
)


@dataclass(frozen=True, kw_only=True)
class Job:
    """One call of the command."""

    wanted: Wanted
    place: Place
    output: str
    waits: bool
    timeout_s: float | None
    gateway: str | None
    images: Path | None
    apiserver_port: int

    @property
    def descriptor(self) -> int:
        """Where progress is printed: on standard error, if standard output has the result as JSON."""
        return 2 if self.output == "json" else 1


class _Rejected(Exception):  # noqa: N818 - reads as what it says
    """The server rejected the Model; the message has one line for each error."""


def show(wanted: Wanted, place: Place, output: str) -> None:
    """Print the Model, with the links that its directories need."""
    manifest = _manifest(wanted)
    _warn_of_secrets(wanted)
    if output == "json":
        click.echo(printing.as_json(manifest.content), nl=False)
        return
    state = place.machine or machine_state.usual()
    for claim in wanted.claims:
        link = node.claim_path(state / "node", wanted.namespace or "default", claim.name)
        click.echo(f"# pvc://{claim.name}: ln -s {shlex.join([str(claim.directory), str(link)])}")
    click.echo(printing.as_yaml(manifest.content, sort_keys=False), nl=False)


def serve(job: Job) -> None:
    """Apply the Model and wait until it answers. Raises ClickException, and SystemExit with 1 or 130."""
    manifest = _manifest(job.wanted)
    _warn_of_secrets(job.wanted)
    if job.place.machine is None and job.wanted.claims:
        raise click.ClickException(str(_of_cluster(job.wanted.claims[0])))
    if job.output == "text":
        click.echo(printing.as_yaml(manifest.content, sort_keys=False))
    run = _Run(job, manifest)
    is_running = not job.place.may_start or process.run_once(lambda: _is_running(job.place))
    if is_running and job.images is not None:
        raise click.ClickException("--images has no effect on a machine that runs: give it to `headgate up`")
    if is_running:
        _apply_there(job, run)
    else:
        _start(job, run)


def _warn_of_secrets(wanted: Wanted) -> None:
    for name in building.secrets_in(wanted.env):
        click.echo(
            f"warning: --env {name}=...: whoever can read the Model reads this value; keep it in a Secret, "
            "and name that under envFrom of the backend in the manifest, which --print shows",
            err=True,
        )


def _of_cluster(claim: LocalClaim) -> SourceError:
    return SourceError(
        f"{claim.directory} is a directory of this machine, which the API server is not: copy it to a "
        "PersistentVolumeClaim there, and name pvc://CLAIM/PATH"
    )


def _manifest(wanted: Wanted) -> Manifest:
    """The Model as a manifest that is valid. Raises SystemExit after printing its errors."""
    reading = read_text(_LABEL, printing.as_yaml(model_of(wanted), sort_keys=False))
    namespace = wanted.namespace or "default"
    errors = [
        each for each in judging.judge(reading.manifests, Kinds(), namespace) if each.severity == "error"
    ]
    if errors:
        click.echo(validation.paragraphs(errors, reading.lines), err=True)
        raise SystemExit(1)
    return reading.manifests[0]


async def _is_running(place: Place) -> bool:
    """Whether the API server of the machine answers."""
    if not all(file.exists() for file in place.server.files):
        return False
    try:
        async with place.server.connect() as client:
            await client.ask("GET", "/version")
    except cluster.Unreachable:
        return False
    return True


class _Run:
    """The way of one Model, from the write to the first response."""

    def __init__(self, job: Job, manifest: Manifest) -> None:
        self._job = job
        self._manifest = manifest
        self.applied: sending.Applied | None = None
        self.is_ready = False
        self.waits_for = ""
        """What kept the model from answering when it was looked at last."""

    def _note(self, told: str) -> None:
        self.waits_for = told

    @property
    def model(self) -> str:
        """Namespace and name, for messages."""
        meta = (self.applied.obj if self.applied is not None else self._manifest.content)["metadata"]
        return f"{meta.get('namespace', 'default')}/{meta['name']}"

    async def until_ready(self, client: cluster.Client, progress: Progress) -> str:
        """Apply and wait; returns what to print. Raises what stands in the way."""
        progress.detail(_MODEL, "applying")
        namespace = self._manifest.content["metadata"].get("namespace") or client.namespace
        await self._link(client, namespace)
        try:
            self.applied = await sending.send(client, self._manifest, _MANNER)
        except cluster.Unreachable:
            raise
        except cluster.ApiError as error:
            found = sending.findings(self._manifest, error, namespace)
            raise _Rejected("\n".join(validation.line(each) for each in found)) from error
        for warning in self.applied.warnings:
            process.say(validation.line(warning), err=True)
        progress.done(_MODEL, f"{self.applied.name} {self.applied.what}")
        job = self._job
        base_url = job.gateway or job.place.gateway
        if job.waits:
            async with asyncio.timeout(job.timeout_s):
                await following.follow(client, namespace, job.wanted.name, base_url, progress, self._note)
            self.is_ready = True
        return self._told(base_url)

    async def _link(self, client: cluster.Client, namespace: str) -> None:
        claims = self._job.wanted.claims
        if not claims or self._job.place.machine is None:
            return
        if not await client.is_embedded():
            raise _of_cluster(claims[0])
        await asyncio.to_thread(_link_all, claims, self._job.place.machine, namespace)

    def _told(self, base_url: str | None) -> str:
        name = self._job.wanted.name
        if self._job.output == "json":
            self._print_result(base_url)
            return ""
        if not self.is_ready:
            return f"Follow it with: headgate get model {name} --watch"
        url = base_url or "http://GATEWAY"
        return f"\n{name} answers:\n\n  {machine.curl(url, name)}\n"

    def give_up(self, reason: str) -> None:
        """Print the result of a Model that does not answer, for programs."""
        if self._job.output == "json":
            self._print_result(self._job.gateway or self._job.place.gateway, reason=reason)

    def _print_result(self, base_url: str | None, **more: str) -> None:
        name, namespace = self._job.wanted.name, self.model.partition("/")[0]
        result = {"name": name, "namespace": namespace, "url": base_url, "ready": self.is_ready, **more}
        click.echo(printing.as_json(result), nl=False)


def _link_all(claims: list[LocalClaim], state: Path, namespace: str) -> None:
    for claim in claims:
        node.link_claim(state / "node", namespace, claim.name, claim.directory)


def _apply_there(job: Job, run: _Run) -> None:
    async def with_client() -> str:
        async with job.place.server.connect() as client:
            console = Console(file=cast(IO[str], process.Output(job.descriptor)))
            with Progress(console, _steps(job)) as progress:
                return await run.until_ready(client, progress)

    told = _explained(job, run, lambda: process.run_once(with_client))
    if told:
        click.echo(told)


def _start(job: Job, run: _Run) -> None:
    """Start the machine, which runs until Ctrl-C."""
    assert job.place.machine is not None
    click.echo(f"No machine runs in {job.place.machine}: starting one, as `headgate up` does.", err=True)
    gateway = configuration.load_with_origins(None, {})
    options = machine.Options(
        manifests=[],
        state=job.place.machine,
        apiserver_port=job.apiserver_port,
        gateway=gateway.settings,
        gateway_origins=gateway.origins,
        gateway_arguments=machine.gateway_arguments(None, {}, gateway.origins, gateway.settings.listen.host),
        wait_s=0,
        images=job.images,
    )

    async def until_ready(client: cluster.Client, progress: Progress) -> str:
        told = await run.until_ready(client, progress)
        return f"{told}\nCtrl-C stops the machine; the Model is kept." if told else ""

    then = machine.Following(_steps(job), until_ready)
    _explained(job, run, lambda: asyncio.run(machine.run(options, then, descriptor=job.descriptor)))
    if run.applied is not None:
        click.echo(f"Model {run.model} is kept: `headgate up` runs it again.", err=True)
    if not run.is_ready and job.waits:
        raise SystemExit(process.INTERRUPTED)


def _steps(job: Job) -> list[str]:
    return [_MODEL, *following.STEPS] if job.waits else [_MODEL]


def _explained(job: Job, run: _Run, main: Callable[[], str | None]) -> str | None:
    """Run `main`; what goes wrong becomes a message that says what happens to the Model."""
    after = f"; the Model stays: `headgate delete model {job.wanted.name}` removes it"
    try:
        with connecting.explained(job.place.server):
            return main()
    except KeyboardInterrupt:
        told = f"Interrupted{after}." if run.applied is not None else "Interrupted; nothing was applied."
        click.echo(told, err=True)
        raise SystemExit(process.INTERRUPTED) from None
    except _Rejected as error:
        click.echo(str(error), err=True)
        raise SystemExit(1) from error
    except following.ModelFailed as error:
        run.give_up(str(error))
        raise click.ClickException(f"Model {run.model} failed: {error}{after}") from error
    except TimeoutError as error:
        why = f": {run.waits_for}" if run.waits_for else ""
        told = f"did not answer in {job.timeout_s:g} s{why}"
        run.give_up(told)
        raise click.ClickException(f"Model {run.model} {told}{after}") from error
    except (configuration.ConfigurationErrors, machine.StartError, StateInUse, StateUnusable) as error:
        raise click.ClickException(str(error)) from error
    except (SourceError, node.ClaimTakenError, OSError) as error:
        raise click.ClickException(process.told(error)) from error
