"""External providers: HTTPS endpoints with a key, outside of the fleet, that may take over requests.

They come from the gateway's settings, never from an object: an annotation can only name one of them. What a
provider is to requests is a pool with one endpoint, and a route with its limits. Its key is not part of this.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from headgate.api import ObjectRef
from headgate.routing.snapshot import (
    PROVIDER,
    Endpoint,
    Pool,
    Route,
    Rule,
    Target,
    TokenLimits,
    name_of,
)
from headgate.routing.tls import Tls

Shape = Literal["openai", "anthropic"]
"""Whose API it has."""

_PICKS = "round-robin"
"""The cheapest policy: there is one endpoint to pick."""


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One provider."""

    name: str
    shape: Shape
    host: str
    port: int = 443
    prefix: str = ""
    """The path of its API, which that of a request follows: such as /v1 for OpenAI's."""
    authorities: str = ""
    """PEM certificates of the CAs that may have signed its certificate; empty for those of the system."""
    models: tuple[str, ...]
    """Names that fallbacks may send; the first unless they name one."""
    timeout_s: float
    """Time until the head of its response."""
    limits: TokenLimits | None = None

    @property
    def key(self) -> ObjectRef:
        return ObjectRef(PROVIDER, "", self.name)

    @property
    def names(self) -> list[str]:
        """What metrics call it and its models."""
        return [name_of(self.key), *(f"{self.name}/{model}" for model in self.models)]

    def pool(self) -> Pool:
        """Its certificate must have the host name of its URL."""
        return Pool(
            key=self.key,
            endpoints=(Endpoint(name_of(self.key), self.host, self.port, self.prefix),),
            scheduling_profile=_PICKS,
            tls=Tls(self.authorities),
            timeout_s=self.timeout_s,
            attempts=0,
            is_outside=True,
        )

    def route(self) -> Route:
        """The route that its requests are counted for."""
        return Route(
            key=self.key,
            name=name_of(self.key),
            model=None,
            adapters=(),
            rules=(Rule("fallback", None, (Target(self.key, 1),)),),
            limits=self.limits,
        )
