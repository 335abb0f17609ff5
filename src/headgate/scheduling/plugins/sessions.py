"""Sends requests of one session to the same endpoint, as a preference (scorer) or as a rule (filter).

A session is identified by a token in the response, which the client sends back, or by the client's own id.
"""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from collections.abc import Sequence
from typing import Annotated, Literal, Protocol

import msgspec

from headgate.fleet import EndpointState
from headgate.scheduling.plugins.parameters import HeaderName, unused
from headgate.scheduling.plugins.plugin import Cycle, Filter, Loads, Plugin, Scorer
from headgate.scheduling.request import Request

SESSION_HEADERS = (
    b"x-session-id",
    b"session-id",
    b"session_id",
    b"x-session-affinity",
    b"x-claude-code-session-id",
)
"""Headers in which known clients send their session id."""
LONGEST = 512
MAX_SESSIONS = 100_000
"""Per pool; least recently used ones are dropped first, as clients can invent ids."""

Positive = Annotated[float, msgspec.Meta(gt=0)]


class Strategy(Protocol):
    """Finds the endpoint of a request's session."""

    def endpoint_of(self, request: Request, now: float) -> str: ...
    def booked(self, request: Request, load: EndpointState, now: float) -> None: ...
    def mark(self, request: Request, load: EndpointState) -> tuple[bytes, bytes] | None: ...


class EncodedEndpoint:
    """The token is the endpoint's name in base64; no state is kept."""

    def __init__(self, header: str) -> None:
        self._header = header.lower().encode()

    def endpoint_of(self, request: Request, now: float) -> str:
        token = request.header(self._header)
        if not token or len(token) > LONGEST:
            return ""
        try:
            return base64.b64decode(token, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError, ValueError):
            return ""

    def booked(self, request: Request, load: EndpointState, now: float) -> None:
        pass

    def mark(self, request: Request, load: EndpointState) -> tuple[bytes, bytes] | None:
        return self._header, base64.b64encode(load.endpoint.name.encode())


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where to read a session's id: a header, a cookie, or with `attribute` the headers that known clients
    use, which is where other plugins would find it."""

    header: HeaderName | None = None
    attribute: str | None = None
    cookie: HeaderName | None = None

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.header, self.attribute, self.cookie)) != 1:
            raise ValueError("a source is exactly one of header, attribute or cookie")

    def read(self, request: Request) -> str:
        if self.cookie is not None:
            return _cookie(request.header(b"cookie"), self.cookie)
        names = (self.header.lower().encode(),) if self.header is not None else SESSION_HEADERS
        return next((found for name in names if (found := request.header(name))), "")


def _cookie(text: str, name: str) -> str:
    """The last cookie of this name. Not by SimpleCookie: before Python 3.11.10, a cookie of backslashes takes
    it as long as thousands of requests."""
    pairs = [pair.partition("=") for pair in text[: 16 * LONGEST].split(";")]
    return next((value.strip(' "') for key, _, value in reversed(pairs) if key.strip() == name), "")


class SessionIds:
    """Remembers the last endpoint of each session, until it is unused for `ttl_s`."""

    def __init__(self, sources: Sequence[Source], ttl_s: float, sweep_s: float) -> None:
        self._sources = sources
        self._ttl_s = ttl_s
        self._sweep_s = sweep_s
        self._swept_at = 0.0
        self._bound: OrderedDict[str, tuple[str, float]] = OrderedDict()
        """Endpoint and last use of each session, least recently used first."""

    def _id(self, request: Request) -> str:
        found = next((found for source in self._sources if (found := source.read(request))), "")
        return found if len(found) <= LONGEST else ""

    def endpoint_of(self, request: Request, now: float) -> str:
        name, used_at = self._bound.get(self._id(request), ("", now))
        return name if now - used_at <= self._ttl_s else ""

    def booked(self, request: Request, load: EndpointState, now: float) -> None:
        session = self._id(request)
        if session:
            self._bound[session] = (load.endpoint.name, now)
            self._bound.move_to_end(session)
        if len(self._bound) > MAX_SESSIONS:
            self._bound.popitem(last=False)
        if now - self._swept_at >= self._sweep_s:
            self._sweep(now)

    def _sweep(self, now: float) -> None:
        self._swept_at = now
        while self._bound:
            session, (_, used_at) = next(iter(self._bound.items()))
            if now - used_at <= self._ttl_s:
                break
            del self._bound[session]

    def mark(self, request: Request, load: EndpointState) -> tuple[bytes, bytes] | None:
        return None

    def __len__(self) -> int:
        return len(self._bound)


class EncodedEndpointConfig(msgspec.Struct, frozen=True, kw_only=True):
    header: HeaderName = "x-session-token"


class SessionIdConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    sources: Annotated[tuple[Source, ...], msgspec.Meta(min_length=1)] = (Source(header="x-session-id"),)
    eviction_ttl_seconds: Positive = 300.0
    eviction_sweep_seconds: Positive = 10.0


class SessionParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The current form with a block per strategy, and the older flat form."""

    strategy: Literal["encoded_endpoint_header", "session_id"] | None = None
    encoded_endpoint_header_config: EncodedEndpointConfig = EncodedEndpointConfig()
    session_id_config: SessionIdConfig = SessionIdConfig()
    algorithm: Literal["encoded_endpoint_header", "session_id_header"] | None = None
    header_name: HeaderName | None = None
    eviction_ttl_seconds: Positive | None = None
    eviction_sweep_seconds: Positive | None = None
    miss_threshold: Annotated[
        int, unused("a session moves as soon as its endpoint cannot be asked"), msgspec.Meta(ge=1)
    ] = 3
    profile_name: Annotated[str, unused("the profile that has the plugin is meant")] = ""

    def __post_init__(self) -> None:
        if self.strategy is not None and self.algorithm is not None:
            raise ValueError("strategy and algorithm are the same: say strategy")

    def made(self) -> Strategy:
        if (self.strategy or self.algorithm or "").startswith("session_id"):
            said = self.session_id_config
            sources = said.sources if self.header_name is None else (Source(header=self.header_name),)
            return SessionIds(
                sources,
                self.eviction_ttl_seconds or said.eviction_ttl_seconds,
                self.eviction_sweep_seconds or said.eviction_sweep_seconds,
            )
        return EncodedEndpoint(self.header_name or self.encoded_endpoint_header_config.header)


class _SessionPlugin(Plugin):
    Parameters = SessionParameters
    alpha = True
    remembers = True
    means_one_endpoint = True

    def __init__(self, parameters: SessionParameters | None = None) -> None:
        super().__init__()
        said = parameters or SessionParameters()
        self.strategy = said.made()

    def booked(self, cycle: Cycle, load: EndpointState) -> None:
        self.strategy.booked(cycle.request, load, cycle.now)

    def mark(self, request: Request, load: EndpointState) -> tuple[bytes, bytes] | None:
        return self.strategy.mark(request, load)


class SessionAffinityScorer(_SessionPlugin, Scorer):
    """1 for the endpoint of the request's session, else 0."""

    kind = "session-affinity-scorer"

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        name = self.strategy.endpoint_of(cycle.request, cycle.now)
        return [float(bool(name) and load.endpoint.name == name) for load in loads]


class SessionAffinityFilter(_SessionPlugin, Filter):
    """Keeps only the endpoint of the request's session if it is among the candidates; else all."""

    kind = "session-affinity-filter"

    def keep(self, cycle: Cycle, loads: Loads) -> Loads:
        name = self.strategy.endpoint_of(cycle.request, cycle.now)
        return [load for load in loads if name and load.endpoint.name == name] or loads
