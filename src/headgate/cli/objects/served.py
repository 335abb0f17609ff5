"""Discover which kinds a server has, and resolve words to kinds."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

import click
import msgspec

from headgate import api, cluster

_ACCEPT = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    for version in ("v2", "v2beta1")
)


@dataclass(frozen=True)
class Served:
    """One version of a kind, and its names."""

    resource: api.Resource
    singular: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    verbs: tuple[str, ...]

    @property
    def words(self) -> set[str]:
        """All names in lower case; also modelroutes.v1alpha1.networking.volcano.sh, as kubectl accepts."""
        resource = self.resource
        names = {resource.plural, self.singular or resource.kind.lower(), *self.short_names}
        full = {f"{name}.{resource.group}" for name in names if resource.group}
        versioned = {f"{name}.{resource.version}.{resource.group}".rstrip(".") for name in names}
        return {name.lower() for name in names | full | versioned}

    def called(self, name: str) -> str:
        """The name of an object of this kind, such as "modelroute.networking.volcano.sh/chat"."""
        return f"{self.title}/{name}"

    @property
    def title(self) -> str:
        singular = self.singular or self.resource.kind.lower()
        return f"{singular}.{self.resource.group}" if self.resource.group else singular


class Catalogue:
    """Everything that a server serves, preferred versions first."""

    def __init__(self, served: Iterable[Served]) -> None:
        self._served = list(served)

    def meant(self, words: str) -> list[Served]:
        """The kinds of "pods,mr" or of a category; raises ClickException for an unknown word."""
        found: dict[api.Resource, Served] = {}
        for word in words.split(","):
            found |= {each.resource: each for each in self._meant(word.strip())}
        return list(found.values())

    def of(self, api_version: str, kind: str) -> Served | None:
        for each in self._served:
            if (each.resource.api_version, each.resource.kind) == (api_version, kind):
                return each
        return None

    def words(self) -> list[str]:
        """Plurals and categories, for completion."""
        listed = [each.resource.plural for each in self._served if "list" in each.verbs]
        return list(dict.fromkeys([*listed, *(name for each in self._served for name in each.categories)]))

    def _meant(self, word: str) -> list[Served]:
        for each in self._served:
            if word.lower() in each.words:
                return [each]
        within = [each for each in self._served if word in each.categories and "list" in each.verbs]
        if within:
            preferred: dict[str, Served] = {}
            for each in within:
                preferred.setdefault(each.resource.qualified_name, each)
            return list(preferred.values())
        raise click.ClickException(f'the server has no kind "{word}"{self._near(word)}')

    def _near(self, word: str) -> str:
        known = {name for each in self._served for name in (each.resource.plural, each.singular) if name}
        close = difflib.get_close_matches(word.lower(), sorted(known), 1, 0.6)
        return f"; did you mean {close[0]}?" if close else f"; it has {', '.join(sorted(self.words()))}"


async def discover(client: cluster.Client) -> Catalogue:
    """Discover all kinds by aggregated discovery, available since Kubernetes 1.27: two requests."""
    found: list[Served] = []
    for path in ("/api", "/apis"):
        answer = await client.ask("GET", path, accept=_ACCEPT)
        found += _kinds(answer.body, path)
    return Catalogue(found)


def _kinds(body: bytes, path: str) -> list[Served]:
    try:
        groups = msgspec.json.decode(body, type=_Groups).items
    except msgspec.MsgspecError as error:
        raise cluster.ApiError(
            f"the server does not support the aggregated discovery of Kubernetes 1.27 or newer: {error}",
            request=f"GET {path}",
        ) from error
    return [
        _served(group.metadata.name, version.version, resource)
        for group in groups
        for version in group.versions
        for resource in version.resources
    ]


def _served(group: str, version: str, resource: _Resource) -> Served:
    where = api.Resource(
        resource.response_kind.group or group,
        resource.response_kind.version or version,
        resource.response_kind.kind,
        resource.resource,
        resource.scope == "Namespaced",
    )
    return Served(
        where, resource.singular_resource, resource.short_names, resource.categories, resource.verbs
    )


class _Kind(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Resource(msgspec.Struct, frozen=True, rename="camel"):
    resource: str
    response_kind: _Kind = _Kind()
    scope: str = "Namespaced"
    singular_resource: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()


class _Version(msgspec.Struct, frozen=True):
    version: str = ""
    resources: list[_Resource] = []


class _GroupMeta(msgspec.Struct, frozen=True):
    name: str = ""


class _Group(msgspec.Struct, frozen=True):
    metadata: _GroupMeta = _GroupMeta()
    versions: list[_Version] = []


class _Groups(msgspec.Struct, frozen=True):
    items: list[_Group]


# Arguments after a verb: KIND NAME..., KIND/NAME..., or KIND,KIND.
@dataclass(frozen=True)
class Asked:
    """Objects of one kind: the named ones, or all of them."""

    served: Served
    names: tuple[str, ...] | None


def asked(words: tuple[str, ...], catalogue: Catalogue) -> list[Asked]:
    """Resolve the arguments; raises UsageError if they mix both forms."""
    if any("/" in word for word in words):
        if not all("/" in word for word in words):
            raise click.UsageError("either KIND NAME... or KIND/NAME..., not both")
        return _by_slash(words, catalogue)
    kinds, names = catalogue.meant(words[0]), words[1:]
    if len(kinds) > 1 and names:
        raise click.UsageError(f"{words[0]} means several kinds: use KIND/NAME to name objects")
    return [Asked(kind, names or None) for kind in kinds]


def _by_slash(words: tuple[str, ...], catalogue: Catalogue) -> list[Asked]:
    named: dict[Served, list[str]] = {}
    for word in words:
        kind, _, name = word.partition("/")
        if not kind or not name or "/" in name or "," in kind:
            hint = f"; {kind} alone means all of them" if kind and not name else ""
            raise click.UsageError(f"{word!r} is not KIND/NAME{hint}")
        (served, *more) = catalogue.meant(kind)
        if more:
            raise click.UsageError(f"{kind} means several kinds: name one of them")
        named.setdefault(served, []).append(name)
    return [Asked(served, tuple(names)) for served, names in named.items()]
