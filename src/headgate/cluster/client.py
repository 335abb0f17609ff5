"""Typed asynchronous verbs on Kubernetes objects, over connections that lightkube configures.

Kinds are Headgate's own structs, decoded straight from the bytes of the response: a list of 10,000 Pods costs
a fraction of a second of CPU where general clients take seconds.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

import msgspec
from lightkube.types import CascadeType, PatchType

from headgate import api
from headgate.cluster import connection
from headgate.cluster.errors import ApiError, Gone, Invalid
from headgate.cluster.outage import Outage
from headgate.cluster.store import K, KubeObject
from headgate.cluster.transport import Answer, Query, Transport
from headgate.garbage import collector_paused

PAGE_SIZE = 500
EMBEDDED_SUFFIX = "+headgate"
"""Of the version that the embedded API server reports."""

Json = dict[str, Any]
Patch = Mapping[str, Any] | Sequence[Mapping[str, Any]] | msgspec.Struct
T = TypeVar("T")


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, frozen=True):
    """A part of a list; all parts have the resource version of the first."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class Client:
    """Reads and writes objects of one API server.

    A kind is a struct class such as `api.Pod`, with its location in the ClassVar `resource`. Namespaced kinds
    use the connection's namespace if none is given, except for `list`, which then lists all namespaces. Every
    method raises only `ApiError` or one of its subclasses; no request takes longer than a minute.
    """

    def __init__(self, link: connection.Connection) -> None:
        self._http = Transport(link)
        self.outage = Outage(link.server, link.source)
        self._resources: dict[tuple[str, str], api.Resource] = {}

    @classmethod
    def from_kubeconfig(cls, files: Path | Sequence[Path] | None = None, context: str | None = None) -> Self:
        """Connect with a kubeconfig, or several merged ones, of which the first takes precedence.

        Without any: the in-cluster account, then $KUBECONFIG, then ~/.kube/config. Raises ConfigurationError.
        """
        return cls(connection.from_kubeconfig(files, context))

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Connect to a server that requires no credentials."""
        return cls(connection.from_url(url))

    @property
    def namespace(self) -> str:
        return self._http.link.namespace

    @property
    def server(self) -> str:
        return self._http.link.server

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.link.aclose()

    # Typed verbs

    async def get(self, of: type[K], name: str, namespace: str | None = None) -> K:
        """The object; raises NotFound if it does not exist."""
        path = self._object_path(of.resource, name, namespace)
        return _decoded(await self._http.request("GET", path), of, f"GET {path}")

    async def list(
        self,
        of: type[K],
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> Sequence[K]:
        """All objects, of all namespaces unless one is given, fetched in pages."""
        path = of.resource.path(namespace)
        query = {"labelSelector": label_selector, "fieldSelector": field_selector}
        try:
            return await self._list(path, of, query, PAGE_SIZE)
        except Gone:
            return await self._list(path, of, query, 0)

    async def create(self, obj: K) -> K:
        """The object as stored by the server; raises AlreadyExists or Invalid."""
        path = self._collection_path(obj.resource, obj.metadata.namespace)
        return _decoded(await self._http.request("POST", path, _body(obj)), type(obj), f"POST {path}")

    async def replace(self, obj: K) -> K:
        """Overwrite the stored object; Conflict if its resourceVersion is not the stored one.

        Fields that the struct does not know are lost: use it only for Headgate's own kinds.
        """
        path = self._object_path(obj.resource, obj.metadata.name, obj.metadata.namespace)
        return _decoded(await self._http.request("PUT", path, _body(obj)), type(obj), f"PUT {path}")

    async def patch(
        self,
        of: type[K],
        name: str,
        namespace: str | None,
        patch: Patch,
        kind: PatchType = PatchType.MERGE,
        *,
        subresource: str | None = None,
        field_manager: str = "headgate",
        force: bool = False,
    ) -> K:
        """Change some fields. With PatchType.APPLY, `force` takes fields over from other managers."""
        path = self._object_path(of.resource, name, namespace, subresource)
        raw = await self._patch(path, patch, kind, field_manager, force)
        return _decoded(raw, of, f"PATCH {path}")

    async def patch_status(self, of: type[K], name: str, namespace: str | None, status: Patch) -> K:
        """Merge `status` (the content of the status field) into the object's status."""
        return await self.patch(of, name, namespace, {"status": status}, subresource="status")

    async def delete(
        self,
        of: type[KubeObject],
        name: str,
        namespace: str | None = None,
        *,
        grace_s: int | None = None,
        propagation: CascadeType | None = None,
        uid: str | None = None,
    ) -> None:
        """Delete the object; with `uid`, only that very object (Conflict otherwise)."""
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if propagation is not None:
            options["propagationPolicy"] = propagation.value
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        await self._http.request(
            "DELETE", self._object_path(of.resource, name, namespace), msgspec.json.encode(options)
        )

    def key_of(self, text: str) -> api.ObjectKey:
        """Of an object named as [NAMESPACE/]NAME; the default is the namespace of the connection."""
        namespace, _, name = text.rpartition("/")
        return api.ObjectKey(namespace or self.namespace, name)

    async def is_embedded(self) -> bool:
        """Whether the server is `headgate apiserver`, which has no scheduler or controllers beside it."""
        version = _decoded(await self._http.request("GET", "/version"), Json, "GET /version")
        return str(version.get("gitVersion", "")).endswith(EMBEDDED_SUFFIX)

    async def bind(self, pod: api.Pod, node: str) -> None:
        """Assign the Pod to a node, as a scheduler does; Conflict if it has one, or is another by now."""
        metadata = {"name": pod.metadata.name, "uid": pod.metadata.uid}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        path = self._object_path(api.Pod.resource, pod.metadata.name, pod.metadata.namespace, "binding")
        await self._http.request("POST", path, msgspec.json.encode(binding))

    # Manifests of any kind, as plain JSON

    async def resource_of(self, api_version: str, kind: str) -> api.Resource:
        """The resource of a kind, looked up on the server; NotFound if it does not serve the kind."""
        known = self._resources.get((api_version, kind))
        if known is not None:
            return known
        path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        served = _decoded(await self._http.request("GET", path), _ResourceList, f"GET {path}").resources
        group, _, version = api_version.rpartition("/")
        for each in served:
            if "/" not in each.name:
                resource = api.Resource(group, version, each.kind, each.name, each.namespaced)
                self._resources[(api_version, each.kind)] = resource
        if (api_version, kind) not in self._resources:
            raise ApiError.from_body(404, f"{api_version} has no kind {kind}".encode(), f"GET {path}")
        return self._resources[(api_version, kind)]

    async def get_manifest(self, resource: api.Resource, name: str, namespace: str | None = None) -> Json:
        path = self._object_path(resource, name, namespace)
        return _decoded(await self._http.request("GET", path), Json, f"GET {path}")

    async def create_manifest(self, manifest: Json) -> Json:
        """Create an object from its manifest; AlreadyExists if it exists."""
        resource, _, namespace = await self._locate(manifest)
        path = self._collection_path(resource, namespace)
        return _decoded(
            await self._http.request("POST", path, msgspec.json.encode(manifest)), Json, f"POST {path}"
        )

    async def apply_manifest(
        self, manifest: Json, *, field_manager: str = "headgate", force: bool = False
    ) -> Json:
        """Create or change an object by server-side apply."""
        resource, name, namespace = await self._locate(manifest)
        path = self._object_path(resource, name, namespace)
        raw = await self._patch(path, manifest, PatchType.APPLY, field_manager, force)
        return _decoded(raw, Json, f"PATCH {path}")

    # Lists and streams, for informers

    async def pages(self, path: str, query: Query, size: int = PAGE_SIZE) -> AsyncGenerator[Page, None]:
        """A list in pages of `size` (0: in one), each with the objects as raw JSON.

        Raises Gone if it takes so long that the server has forgotten the version of the first page.
        """
        token: str | None = None
        while token != "":
            limit = str(size) if size else None
            raw = await self._http.request("GET", path, query={**query, "limit": limit, "continue": token})
            page = _decoded(raw, Page, f"GET {path}")
            token = page.metadata.continue_token
            yield page

    def stream(
        self, path: str, query: Query, read_timeout_s: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """A GET whose body is read as it is produced, such as logs: the chunks as they arrive.

        Raises Unreachable if nothing arrives for `read_timeout_s`.
        """
        return self._http.stream(path, query, read_timeout_s)

    def stream_lines(
        self, path: str, query: Query, read_timeout_s: float, *, accept: str = "application/json"
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Like `stream`, split into lines of bounded length, such as a watch."""
        return self._http.stream_lines(path, query, read_timeout_s, accept)

    # Raw requests, for printing what the server responds

    async def ask(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        query: Query | None = None,
        accept: str = "application/json",
        content_type: str = "application/json",
    ) -> Answer:
        """The response to one request, with its status and warnings; `accept` can request Tables, for
        instance."""
        content = None if body is None else msgspec.json.encode(body)
        return await self._http.exchange(
            method, path, content, content_type=content_type, query=query, accept=accept
        )

    def path_of(
        self,
        resource: api.Resource,
        name: str | None = None,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> str:
        """The path of an object, or of its collection in a namespace; raises Invalid for an invalid name."""
        if name is None:
            return self._collection_path(resource, namespace)
        return self._object_path(resource, name, namespace, subresource)

    # Shared code

    async def _list(self, path: str, of: type[K], query: Query, page_size: int) -> Sequence[K]:
        decoder = msgspec.json.Decoder(of)
        items: list[K] = []
        async with aclosing(self.pages(path, query, page_size)) as pages:
            async for page in pages:
                with collector_paused():
                    items += [_decoded(raw, decoder, f"GET {path}") for raw in page.items or ()]
        return items

    def _collection_path(self, resource: api.Resource, namespace: str | None) -> str:
        return resource.path(self._scope(resource, namespace))

    def _object_path(
        self, resource: api.Resource, name: str, namespace: str | None, subresource: str | None = None
    ) -> str:
        _check_name(resource, "name", name)
        return resource.path(self._scope(resource, namespace), name, subresource)

    def _scope(self, resource: api.Resource, namespace: str | None) -> str | None:
        if not resource.namespaced:
            return None
        namespace = namespace or self.namespace
        _check_name(resource, "namespace", namespace)
        return namespace

    async def _locate(self, manifest: Json) -> tuple[api.Resource, str, str | None]:
        try:
            head = msgspec.convert(manifest, _ManifestHead)
        except msgspec.ValidationError as error:
            raise Invalid(f"not a manifest of an object: {error}", status_code=422) from error
        resource = await self.resource_of(head.api_version, head.kind)
        return resource, head.metadata.name, head.metadata.namespace or None

    async def _patch(
        self, path: str, patch: Patch, kind: PatchType, field_manager: str, force: bool
    ) -> bytes:
        query = {"fieldManager": field_manager}
        if kind is PatchType.APPLY:
            query["force"] = "true" if force else "false"
        return await self._http.request(
            "PATCH", path, msgspec.json.encode(patch), content_type=kind.value, query=query
        )


class _ServedResource(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool = False


class _ResourceList(msgspec.Struct, frozen=True):
    resources: list[_ServedResource]


class _ManifestHead(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    metadata: api.ObjectMeta


def _check_name(resource: api.Resource, field: str, name: str) -> None:
    """Reject names that would address something else in a path, at worst a whole collection."""
    if name in ("", ".", "..") or quote(name, safe=":") != name:
        raise Invalid(f"{resource.kind} metadata.{field}: {name!r} is not a name", status_code=422)


def _body(obj: KubeObject) -> bytes:
    """The object with its apiVersion and kind, which a struct may leave to its class."""
    content: Json = msgspec.to_builtins(obj)
    return msgspec.json.encode({**content, "apiVersion": obj.resource.api_version, "kind": obj.resource.kind})


def _decoded(raw: bytes | msgspec.Raw, of: type[T] | msgspec.json.Decoder[T], asked: str) -> T:
    decoder = of if isinstance(of, msgspec.json.Decoder) else msgspec.json.Decoder(of)
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(
            f"the answer is not what we expect: {error}", reason="Unreadable", request=asked
        ) from error
