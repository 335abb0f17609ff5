"""Filters of HTTPRoute rules in the form in which the data path applies them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.api import http_routes
from headgate.routing.gateway_api.matches import UnsupportedError

Header = tuple[bytes, bytes]
"""Lower-case name and value."""

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_OF_THE_CONNECTION: Final = frozenset(
    {
        b"connection",
        b"content-length",
        b"host",
        b"keep-alive",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Headers that decide where a message ends or where it goes: no filter changes them."""


class HeaderChange(msgspec.Struct, frozen=True):
    """Changes of headers: first removed, then replaced, then added."""

    removed: frozenset[bytes] = frozenset()
    replaced: tuple[Header, ...] = ()
    added: tuple[Header, ...] = ()

    def apply(self, headers: Iterable[Header]) -> list[Header]:
        """The changed headers."""
        gone = self.removed | {name for name, _ in self.replaced}
        kept = [header for header in headers if header[0] not in gone] if gone else list(headers)
        return [*kept, *self.replaced, *self.added]


class PathChange(msgspec.Struct, frozen=True):
    """A new path: as a whole, or for the matched prefix only."""

    text: str
    is_prefix: bool

    def apply(self, path: str, prefix: str | None) -> str:
        """The new path; `prefix` is the one that the match has, without a slash at its end."""
        if not self.is_prefix or prefix is None:
            return self.text or "/"
        rest = path[len(prefix) :]
        if not rest or (rest == "/" and self.text.endswith("/")):
            return self.text or "/"
        return self.text.rstrip("/") + (rest if rest.startswith("/") else f"/{rest}")


class Redirect(msgspec.Struct, frozen=True):
    """A redirect as the response. What is None stays as it was requested."""

    status: int
    scheme: str | None = None
    hostname: str | None = None
    port: int | None = None
    path: PathChange | None = None


class Rewrite(msgspec.Struct, frozen=True):
    """Changes of host and path for the backend."""

    hostname: str | None = None
    path: PathChange | None = None


class Mirror(msgspec.Struct, frozen=True):
    """A copy of a share of the requests to another backend, whose response is ignored."""

    backend: int
    """Which of the mirrored backends of the rule."""
    numerator: int = 1
    denominator: int = 1


class Filters(msgspec.Struct, frozen=True):
    """The filters of a rule, or of one of its backends."""

    request: HeaderChange | None = None
    response: HeaderChange | None = None
    redirect: Redirect | None = None
    rewrite: Rewrite | None = None
    mirrors: tuple[Mirror, ...] = ()


NO_FILTERS: Final = Filters()


def compiled(filters: Iterable[http_routes.Filter], *, first_mirror: int = 0) -> Filters:
    """The filters of a rule or backend. `first_mirror` is the index that its first mirrored backend has among
    those of the rule. Raises UnsupportedError, with the field below the rule or backend."""
    made = Filters()
    mirrors: list[Mirror] = []
    for i, each in enumerate(filters):
        place = f"filters[{i}]"
        match each.type:
            case http_routes.REQUEST_HEADERS if each.request_header_modifier is not None:
                change = _headers(each.request_header_modifier, f"{place}.requestHeaderModifier")
                made = msgspec.structs.replace(made, request=change)
            case http_routes.RESPONSE_HEADERS if each.response_header_modifier is not None:
                change = _headers(each.response_header_modifier, f"{place}.responseHeaderModifier")
                made = msgspec.structs.replace(made, response=change)
            case http_routes.REDIRECT if each.request_redirect is not None:
                redirect = _redirect(each.request_redirect, f"{place}.requestRedirect")
                made = msgspec.structs.replace(made, redirect=redirect)
            case http_routes.REWRITE if each.url_rewrite is not None:
                path = _path(each.url_rewrite.path, f"{place}.urlRewrite.path")
                made = msgspec.structs.replace(made, rewrite=Rewrite(each.url_rewrite.hostname, path))
            case http_routes.MIRROR if each.request_mirror is not None:
                mirrors.append(_mirror(each.request_mirror, first_mirror + len(mirrors)))
            case _:
                raise UnsupportedError(f"{place}.type", f"{each.type!r} is not supported, or has no field")
    if made.redirect is not None and made.rewrite is not None:
        raise UnsupportedError("filters", "RequestRedirect and URLRewrite exclude each other")
    return msgspec.structs.replace(made, mirrors=tuple(mirrors)) if mirrors else made


def _headers(change: http_routes.HeaderFilter, place: str) -> HeaderChange:
    made = HeaderChange(
        removed=frozenset(name.lower().encode() for name in change.remove),
        replaced=tuple(_header(header) for header in change.set),
        added=tuple(_header(header) for header in change.add),
    )
    names = made.removed | {name for name, _ in (*made.replaced, *made.added)}
    if fixed := names & _OF_THE_CONNECTION:
        told = ", ".join(sorted(name.decode() for name in fixed))
        raise UnsupportedError(place, f"{told} cannot be changed: use URLRewrite for the host")
    return made


def _header(header: http_routes.Header) -> Header:
    value = header.value.strip(" \t")
    if any(character in value for character in "\r\n\0"):
        raise UnsupportedError("filters", f"the value of header {header.name} has a line end or a zero byte")
    return header.name.lower().encode(), value.encode()


def _path(change: http_routes.PathModifier | None, place: str) -> PathChange | None:
    if change is None:
        return None
    if change.type == http_routes.FULL_PATH:
        made = PathChange(change.replace_full_path or "/", is_prefix=False)
    elif change.type == http_routes.PREFIX_MATCH:
        made = PathChange(change.replace_prefix_match or "/", is_prefix=True)
    else:
        raise UnsupportedError(f"{place}.type", f"{change.type!r} is not supported")
    if (
        not made.text.startswith("/")
        or not made.text.isascii()
        or not made.text.isprintable()
        or " " in made.text
    ):
        raise UnsupportedError(place, f"{made.text[:64]!r} is not a path: it begins with / and has no spaces")
    return made


def _redirect(redirect: http_routes.RequestRedirect, place: str) -> Redirect:
    if redirect.status_code not in REDIRECTS:
        told = ", ".join(map(str, sorted(REDIRECTS)))
        raise UnsupportedError(f"{place}.statusCode", f"{redirect.status_code} is none of {told}")
    if redirect.scheme not in (None, "http", "https"):
        raise UnsupportedError(f"{place}.scheme", f"{redirect.scheme!r} is neither http nor https")
    return Redirect(
        redirect.status_code,
        redirect.scheme,
        redirect.hostname,
        redirect.port,
        _path(redirect.path, f"{place}.path"),
    )


def _mirror(mirror: http_routes.RequestMirror, backend: int) -> Mirror:
    if mirror.percent is not None:
        return Mirror(backend, mirror.percent, 100)
    if mirror.fraction is not None:
        return Mirror(backend, mirror.fraction.numerator, mirror.fraction.denominator)
    return Mirror(backend)
