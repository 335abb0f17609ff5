"""Reads the values of `--endpoint`: the URL of an engine, a name for it, and how it is used."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, get_args
from urllib.parse import SplitResult, urlsplit

import msgspec

from headgate import engines, routing
from headgate.api import weights
from headgate.api.kthena_networking import CONNECTORS

Role = Literal["", "prefill", "decode", "both"]

MAX_ENDPOINTS: Final = 500
MAX_NAME_CHARACTERS: Final = 40
"""Addresses are appended to it, and names of Pods in labels may have 63 characters."""
PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
SRV: Final = "srv"

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_LABEL: Final = r"[A-Za-z0-9_]([-A-Za-z0-9_]{0,61}[A-Za-z0-9_])?"
_HOST: Final = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*\.?")
_SRV_HOST: Final = re.compile(rf"_({_LABEL})\._tcp\.{_HOST.pattern.replace('(?=.{1,253}$)', '')}")
_BEGIN: Final = re.compile(r"(?:(?P<name>[^=/:,]*)=)?(?P<url>[a-zA-Z][a-zA-Z0-9+.-]*://.*)")
_OPTION: Final = re.compile(r"\s*(weight|role|engine|kv-connector)\s*=")
_ENGINES: Final = tuple(engine.name for engine in engines.KNOWN)


Place = tuple[str, int, bool, str]


class EndpointUrl(msgspec.Struct, frozen=True, kw_only=True):
    """One `--endpoint`."""

    name: str
    text: str
    """As it was written."""
    host: str
    port: int
    """0 if DNS tells it, as for SRV."""
    is_https: bool = False
    is_srv: bool = False
    prefix: str = ""
    """What precedes the path of every request, such as /llama."""
    weight: float | None = None
    role: Role = ""
    engine: str = ""
    """Empty: recognized by its metrics page."""
    connector: str = ""

    @property
    def place(self) -> Place:
        """What it leads to: equal for URLs that differ only in how their servers are used."""
        return self.host.lower().rstrip("."), self.port, self.is_srv, self.prefix

    @property
    def is_address(self) -> bool:
        """Whether the host is an address, which needs no lookup."""
        return is_address(self.host)


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def read(texts: Iterable[str]) -> tuple[list[EndpointUrl], list[str]]:
    """All endpoints, and everything that is wrong with the others, each with the value and a fix."""
    found: list[EndpointUrl] = []
    problems: list[str] = []
    names: dict[str, str] = {}
    places: dict[Place, str] = {}
    for text in _joined(texts):
        try:
            each = parse(text, names)
        except ValueError as error:
            problems.append(f"{text[:128]!r}: {error}")
            continue
        if each.name in names:
            problems.append(f"{text[:128]!r}: {names[each.name]!r} has the name {each.name}, too: rename one")
        elif each.place in places:
            problems.append(
                f"{text[:128]!r}: {places[each.place]!r} is the same server: remove one of the two"
            )
        else:
            found.append(each)
            names[each.name] = places[each.place] = text[:128]
    if len(found) > MAX_ENDPOINTS:
        problems.append(
            f"{len(found)} endpoints: at most {MAX_ENDPOINTS} are supported; use srv:// URLs or files"
        )
    return found, problems


def _joined(texts: Iterable[str]) -> Iterator[str]:
    """The values as they were meant: the variable of the environment is split at commas, options included."""
    held = ""
    for text in texts:
        if held and _OPTION.match(text) and "://" not in text:
            held += f",{text}"
            continue
        if held:
            yield held
        held = text.strip()
    if held:
        yield held


def parse(text: str, taken: Iterable[str] = ()) -> EndpointUrl:
    """Read one value. A name that it does not give is derived from the URL, and is none of `taken`. Raises
    ValueError, which says what to write."""
    begin = _BEGIN.fullmatch(text.strip())
    if begin is None:
        raise ValueError(_without_scheme(text))
    url, *options = begin["url"].split(",")
    given = dict(_options(options))
    parts = _split(url)
    scheme, host = parts.scheme.lower(), parts.hostname or ""
    is_srv = scheme == SRV
    service = _SRV_HOST.fullmatch(host) if is_srv else None
    if is_srv and service is None:
        raise ValueError(
            f"{host!r} is no DNS service: write a name such as srv://_http._tcp.engines.example.com"
        )
    if not is_srv and not is_address(host) and not _HOST.fullmatch(host):
        raise ValueError(f"{host[:64]!r} is no host name and no address")
    port = 0 if is_srv else parts.port or PORTS[scheme]
    name = begin["name"]
    if name is not None and not _NAME.fullmatch(name):
        raise ValueError(
            f"{name[:64]!r} is no name: up to {MAX_NAME_CHARACTERS} lower-case letters, digits and dashes "
            "are needed"
        )
    return EndpointUrl(
        name=name or _derived(host, parts.port or 0, set(taken)),
        text=text.strip(),
        host=host,
        port=port,
        is_https=service[1].lower() == "https" if service is not None else scheme == "https",
        is_srv=is_srv,
        prefix=_prefix(parts.path),
        weight=_weight(given["weight"]) if "weight" in given else None,
        role=_role(given.get("role", "")),
        engine=_one_of("engine", given.get("engine", ""), _ENGINES),
        connector=_one_of("kv-connector", given.get("kv-connector", ""), CONNECTORS),
    )


def _without_scheme(text: str) -> str:
    name, is_named, rest = text.strip().rpartition("=") if "://" not in text else ("", "", text)
    meant = f"{name}{is_named}http://{rest or 'gpu-1:8000'}"
    return f"a URL is needed, with its scheme: did you mean {meant[:128]}?"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{url[:128]!r} is no URL: {error}") from None
    scheme = parts.scheme.lower()
    if scheme not in (*PORTS, SRV):
        raise ValueError(f"{parts.scheme!r} is none of the schemes http, https and srv")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a user and password in a URL are not sent to engines: remove them")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise ValueError("a URL of an engine has no query and no fragment: remove what follows its path")
    if not parts.hostname:
        raise ValueError("the URL has no host: write one such as http://gpu-1:8000")
    if port == 0 or (scheme == SRV and port is not None):
        raise ValueError(f"remove the port: {'DNS tells it' if scheme == SRV else '0 is none'}")
    return parts


def _options(texts: list[str]) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for text in texts:
        name, is_set, value = (part.strip() for part in text.partition("="))
        if not is_set or not _OPTION.match(text):
            raise ValueError(
                f"{text[:64]!r} is no option: weight=NUMBER, role=prefill|decode|both, engine=NAME and "
                "kv-connector=NAME follow a URL, after commas"
            )
        if name in seen:
            raise ValueError(f"{name} is given twice: remove one of the two")
        seen.add(name)
        yield name, value


def _prefix(path: str) -> str:
    """Without / at its end. The path of OpenAI's API is that of requests, and not of the engine."""
    prefix = path.rstrip("/")
    if prefix == "/v1" or prefix.endswith("/v1"):
        raise ValueError("remove /v1 from the URL: requests have it in their own path")
    if prefix and not routing.is_prefix(prefix):
        raise ValueError(f"{path[:64]!r} cannot precede the paths of requests: write one such as /llama")
    return prefix


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not weights.LEAST <= weight <= weights.MOST:
        raise ValueError(f"weight={text[:32]} is no number from {weights.LEAST:g} to {weights.MOST:g}")
    return weight


def _role(text: str) -> Role:
    roles: tuple[Role, ...] = get_args(Role)
    for role in roles:
        if role == text:
            return role
    raise ValueError(f"role={text[:32]} is none of prefill, decode and both")


def _one_of(option: str, text: str, known: Iterable[str]) -> str:
    named = {each.lower(): each for each in known}
    if text and text.lower() not in named:
        raise ValueError(f"{option}={text[:32]} is none of {', '.join(named.values())}")
    return named.get(text.lower(), "")


def _derived(host: str, port: int, taken: set[str]) -> str:
    base = slug(f"{host}-{port}" if port else host, MAX_NAME_CHARACTERS - 4)
    candidates = (base, *(f"{base}-{number}" for number in range(2, MAX_ENDPOINTS + 2)))
    return next(each for each in candidates if each not in taken)


def slug(text: str, most: int) -> str:
    """The text as part of the name of an object: lower-case letters, digits and single dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:most].strip("-") or "x"
