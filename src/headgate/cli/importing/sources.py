"""Read the objects to import, from files or from a cluster; nothing is written.

A cluster is read with lists of bounded pages. A kind that it does not have, or that may not be listed, is
reported and does not stop the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

import click
import msgspec

from headgate import api, cluster, routing
from headgate.api import forms, gie_v1, gie_v1alpha1
from headgate.cli import manifests
from headgate.cli.importing import taking
from headgate.cli.importing.report import Unread
from headgate.cli.importing.serving import Workload
from headgate.cli.importing.taking import Found, Taken
from headgate.cli.objects.served import Catalogue, discover
from headgate.cli.route.sources import Objects, stored_secret

PAGE_SIZE = 200
MAX_OBJECTS = 20_000
"""Read of one kind, Pods included."""
MAX_BYTES = 512 * 1024 * 1024
"""Read of one kind."""


class Source(NamedTuple):
    """What was found. `pods` and `secrets` are only those that pools use."""

    label: str
    found: list[Found]
    unread: list[Unread]
    absent_kinds: list[str] = []


class Import(NamedTuple):
    """Everything that a report is made of."""

    source: Source
    taken: Taken
    objects: Objects
    knows_pods: bool
    workloads: Sequence[Workload] = ()

    @property
    def ignored(self) -> dict[str, int]:
        inputs = {"Pod", "Secret"}
        kinds = Counter(each.content["kind"] for each in self.taken.rest)
        return {kind: number for kind, number in sorted(kinds.items()) if kind not in inputs}


# Files


def from_files(paths: Sequence[str], recursive: bool, namespace: str | None, every: bool) -> Import:
    """The objects of files, directories and standard input; of one namespace, unless `every`.

    Raises UsageError if there are none.
    """
    reading = manifests.read(paths, recursive=recursive)
    if not reading.manifests and not reading.problems:
        raise click.UsageError(f"no manifests in {', '.join(paths)}; -R searches directories recursively")
    unread = [
        Unread(str(problem).removesuffix(f": {problem.message}"), problem.message)
        for problem in sorted(reading.problems, key=lambda problem: problem.order)
    ]
    default = namespace or "default"
    found = [
        Found(manifest.content, manifest.source, manifest)
        for manifest in reading.manifests
        if every or namespace is None or _namespace(manifest.content, default) == namespace
    ]
    taken = taking.take(found, default)
    contents = [_with_namespace(each.content, default) for each in taken.rest]
    pods, bad = _decoded_each(contents, api.Pod)
    secrets, worse = _decoded_each(contents, api.Secret)
    objects = objects_of(taken.objects, pods, [stored_secret(each) for each in secrets])
    source = Source(", ".join(paths), found, [*unread, *bad, *worse])
    return Import(source, taken, objects, bool(pods), list(_workloads(contents)))


def _workloads(contents: Iterable[dict[str, Any]]) -> Iterator[Workload]:
    """Deployments and StatefulSets, by the labels of their Pods."""
    for content in contents:
        if content["kind"] not in ("Deployment", "StatefulSet") or not isinstance(
            content.get("metadata"), Mapping
        ):
            continue
        value: Any = content
        for name in ("spec", "template", "metadata", "labels"):
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, Mapping):
            yield Workload(taking.named(content), str(content["metadata"]["namespace"]), value)


def _namespace(content: Mapping[str, Any], default: str) -> object:
    metadata = content.get("metadata")
    return (metadata.get("namespace") if isinstance(metadata, Mapping) else None) or default


def _with_namespace(content: dict[str, Any], default: str) -> dict[str, Any]:
    metadata = content.get("metadata")
    if not isinstance(metadata, dict):
        return content
    return {**content, "metadata": {"namespace": default, **metadata}}


def _decoded_each(contents: Iterable[dict[str, Any]], kind: type[Any]) -> tuple[list[Any], list[Unread]]:
    decoded, unread = [], []
    for content in contents:
        try:
            decoded += taking.decoded([content], kind)
        except msgspec.ValidationError as error:
            unread.append(Unread(taking.named(content), str(error)))
    return decoded, unread


def objects_of(
    taken: Sequence[dict[str, Any]], pods: Sequence[api.Pod], secrets: Sequence[api.Secret]
) -> Objects:
    inference = routing.InferenceObjects(
        pools=[
            *taking.decoded(taken, gie_v1.InferencePool),
            *taking.decoded(taken, gie_v1alpha1.InferencePool),
        ],
        models=taking.decoded(taken, api.InferenceModel),
        objectives=taking.decoded(taken, api.InferenceObjective),
        rewrites=taking.decoded(taken, api.InferenceModelRewrite),
    )
    routes, servers = taking.decoded(taken, api.ModelRoute), taking.decoded(taken, api.ModelServer)
    return Objects(routes, servers, inference, pods, secrets)


# A cluster


async def from_cluster(client: cluster.Client, namespace: str | None, every: bool) -> Import:
    """The objects of a cluster: of one namespace, or of all. Raises ClickException if it does not exist."""
    where = None if every else namespace or client.namespace
    catalogue = await discover(client)
    reader = _Reader(client, where)
    absent: list[str] = []
    for kind in _kinds():
        if (resource := kind.served_by(catalogue)) is None:
            absent.append(kind.title)
        else:
            await reader.read(resource)
    if where is not None and not reader.found:
        await _check_existence(client, where)
    taken = taking.take(reader.found, where or "default")
    pools = objects_of(taken.objects, (), ()).pools
    pods = [pod async for pod in reader.pods(pools)]
    secrets = [secret async for secret in reader.secrets(pools)]
    objects = objects_of(taken.objects, pods, secrets)
    label = f"{client.server}, {f'namespace {where}' if where else 'all namespaces'}"
    source = Source(label, reader.found, reader.unread, absent)
    return Import(source, taken, objects, knows_pods=reader.reads_pods)


async def _check_existence(client: cluster.Client, namespace: str) -> None:
    """A list in a namespace that does not exist is empty. Raises ClickException."""
    try:
        await client.get(api.Namespace, namespace)
    except cluster.NotFound as error:
        raise click.ClickException(
            f'namespace "{namespace}" does not exist in {client.server}: '
            "-n names another one, and -A reads all namespaces"
        ) from error
    except cluster.Forbidden:
        return


class _Kind(NamedTuple):
    """A kind of one group, in the versions that are known here."""

    group: str
    name: str
    versions: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{self.name}.{self.group}"

    def served_by(self, catalogue: Catalogue) -> api.Resource | None:
        """The first of the versions that the cluster serves."""
        for version in self.versions:
            if (served := catalogue.of(f"{self.group}/{version}", self.name)) is not None:
                return served.resource
        return None


def _kinds() -> Iterator[_Kind]:
    """Headgate's kinds, other forms of them, and those that have no counterpart."""
    known: dict[tuple[str, str], list[str]] = {}
    own = [(definition["spec"], definition) for definition in api.custom_definitions()]
    identities = [
        (f"{spec['group']}/{spec['versions'][0]['name']}", spec["names"]["kind"]) for spec, _ in own
    ]
    for api_version, kind in (*identities, *forms.FORMS, *forms.UNSERVED):
        group, _, version = api_version.partition("/")
        versions = known.setdefault((group, kind), [])
        if version not in versions:
            versions.append(version)
    for (group, kind), versions in known.items():
        yield _Kind(group, kind, tuple(versions))


class _Reader:
    """Lists kinds, and keeps what could not be read."""

    def __init__(self, client: cluster.Client, namespace: str | None) -> None:
        self._client = client
        self._namespace = namespace
        self.found: list[Found] = []
        self.unread: list[Unread] = []
        self.reads_pods = True

    async def read(self, resource: api.Resource) -> None:
        source = f"{resource.qualified_name} of the cluster"
        what = f"{resource.kind} of {resource.api_version}"
        async for raw in self._items(resource, self._namespace, what):
            try:
                content = msgspec.json.decode(raw)
            except (msgspec.MsgspecError, RecursionError) as error:
                self.unread.append(Unread(what, str(error)))
                continue
            if isinstance(content, dict):
                identity = {"apiVersion": resource.api_version, "kind": resource.kind}
                self.found.append(Found({**content, **identity}, source))

    async def pods(self, pools: Sequence[routing.PoolObject]) -> AsyncIterator[api.Pod]:
        """The Pods that pools select."""
        selectors: dict[str, list[Mapping[str, str]]] = {}
        for pool in pools:
            namespace, labels = routing.selector_of(pool)
            if labels:
                selectors.setdefault(namespace, []).append(labels)
        for namespace, wanted in selectors.items():
            before = len(self.unread)
            async for raw in self._items(api.Pod.resource, namespace, f"Pod in namespace {namespace}"):
                try:
                    pod = msgspec.json.decode(raw, type=api.Pod)
                except (msgspec.MsgspecError, RecursionError) as error:
                    self.unread.append(Unread("Pod", str(error)))
                    continue
                if any(labels.items() <= pod.metadata.labels.items() for labels in wanted):
                    yield pod
            self.reads_pods = self.reads_pods and len(self.unread) == before

    async def secrets(self, pools: Sequence[routing.PoolObject]) -> AsyncIterator[api.Secret]:
        """The Secrets with certificates that pools name."""
        named = {key for pool in pools if (key := routing.authorities_of(pool)) is not None}
        for key in sorted(named):
            try:
                yield await self._client.get(api.Secret, key.name, key.namespace)
            except cluster.NotFound:
                continue  # the translation reports it
            except cluster.ApiError as error:
                self.unread.append(Unread(f"Secret {key}", _told(error)))

    async def _items(
        self, resource: api.Resource, namespace: str | None, what: str
    ) -> AsyncIterator[msgspec.Raw]:
        """The objects of a kind, up to the limits."""
        path = resource.path(namespace)
        number = size = 0
        try:
            async with aclosing(self._client.pages(path, {}, PAGE_SIZE)) as pages:
                async for page in pages:
                    for raw in page.items or ():
                        number, size = number + 1, size + len(bytes(raw))
                        if number > MAX_OBJECTS or size > MAX_BYTES:
                            limit = f"{MAX_OBJECTS} objects or {MAX_BYTES // 1024**2} MiB"
                            why = f"there are more than {limit}: only the first are read; use -n"
                            self.unread.append(Unread(what, why))
                            return
                        yield raw
        except cluster.Unreachable:
            raise
        except cluster.ApiError as error:
            self.unread.append(Unread(what, _told(error)))


def _told(error: cluster.ApiError) -> str:
    if isinstance(error, cluster.Forbidden):
        return f"{error.message}; grant the right to list it, or read one namespace with -n"
    return error.message
