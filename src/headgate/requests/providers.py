"""The external providers that a gateway may send requests to, and which requests they can serve.

A request reaches one only as the last of its fallbacks; nothing else leads there. It is passed over for
requests of the other shape: nothing is translated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from headgate import routing
from headgate.api import ObjectRef
from headgate.requests.destinations import Destination
from headgate.requests.paths import ANTHROPIC
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.requests.client import ClientRequest
    from headgate.requests.pool_state import PoolState

PATHS: Final[Mapping[str, frozenset[str]]] = {
    "openai": frozenset(("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses")),
    "anthropic": frozenset(ANTHROPIC),
}
"""The paths that a provider of each shape serves, all with JSON."""

HOPS: Final = b"x-headgate-hops"
"""The header that tells a provider how many gateways sent the request to providers."""
MAX_HOPS: Final = 3
"""Providers may be gateways with providers of their own, and form a circle."""

_METHOD: Final = b"POST"
_FORBIDDEN: Final = frozenset((401, 403))
_TOO_MANY, _SERVER_ERROR, _MULTIPLE_CHOICES = 429, 500, 300


class Known(NamedTuple):
    """One provider, with its state."""

    provider: routing.Provider
    route: routing.Route
    pool: PoolState


class Found(NamedTuple):
    """Where a request goes at a provider."""

    destination: Destination
    model: str
    """The model in metrics, headers and rights of tenants: "provider/model"."""


class Providers:
    """Owned by the routes of a data plane."""

    __slots__ = ("_listed", "_problems", "by_name", "troubles")

    def __init__(self) -> None:
        self.by_name: dict[str, Known] = {}
        self.troubles: Mapping[str, str] = {}
        """Why others of the settings cannot be used, by their name."""
        self._listed: Mapping[str, routing.Provider] | None = None
        """All of the settings; None where nobody lists any, as in a picker."""
        self._problems: tuple[routing.Snapshot, tuple[routing.Problem, ...]] | None = None
        """Those of one snapshot."""

    def pool(self, key: ObjectRef) -> PoolState | None:
        """The state of a provider; None for pools of objects."""
        known = self.by_name.get(key.name) if key.kind == routing.PROVIDER else None
        return known.pool if known is not None else None

    def pools(self) -> list[PoolState]:
        return [known.pool for known in self.by_name.values()]

    def use(
        self, by_name: dict[str, Known], troubles: Mapping[str, str], listed: Iterable[routing.Provider]
    ) -> None:
        """Take those that can be used, why others cannot, and all that the settings list."""
        self.by_name, self.troubles = by_name, troubles
        self._listed, self._problems = {each.name: each for each in listed}, None

    def problems(self, snapshot: routing.Snapshot) -> tuple[routing.Problem, ...]:
        """Fallbacks to providers or models that the settings do not list; a scan of all routes and pools,
        once for each snapshot."""
        if self._listed is None:
            return ()
        if self._problems is None or self._problems[0] is not snapshot:
            self._problems = snapshot, routing.unlisted(snapshot, self._listed)
        return self._problems[1]

    def find(self, next: routing.Next, request: ClientRequest) -> Found | Refusal:
        """Where a request goes; or why not, for explanations."""
        name = next.provider
        known = self.by_name.get(name)
        if known is None:
            why = self.troubles.get(name)
            return _passed_over(f"{name}: {why}" if why else routing.not_listed(next, None))
        provider, path = known.provider, request.path
        hops = hops_of(request)
        if hops >= MAX_HOPS:
            return _passed_over(f"{hops} gateways sent the request to providers already, maybe in a circle")
        if path not in PATHS[provider.shape]:
            return _passed_over(f"{name} has the API of {provider.shape}, which does not serve {path[:256]}")
        if request.method != _METHOD:
            asked = request.method.decode("latin-1")
            return _passed_over(f"providers are asked by POST only, and this is {asked}")
        if why := routing.not_listed(next, provider):
            return _passed_over(why)
        model = next.model or provider.models[0]
        target = routing.Target(provider.key, 1, model)
        match = routing.Match(known.route, known.route.rules[0], is_adapter=False)
        return Found(Destination(match, target, known.pool), f"{name}/{model}")


def hops_of(request: ClientRequest) -> int:
    """How many gateways sent a request to providers before it came here; the limit if that is not clear."""
    told = request.header(HOPS)
    return 0 if not told else int(told) if told.isdecimal() and len(told) == 1 else MAX_HOPS


def _passed_over(why: str) -> Refusal:
    return Refusal.unavailable(why, code="provider_not_usable")


def refusal(pool: routing.Pool, status: int, rest_s: float | None) -> Refusal:
    """What the client gets instead of an error of a provider, whose text may show the operator's account.
    `rest_s` is its Retry-After."""
    who = f"the provider {pool.key.name!r}"
    retry_after_s = None if rest_s is None else max(int(rest_s + 0.999), 1)
    if status in _FORBIDDEN:
        told = f"{who} rejected the gateway's key, with status {status}"
        return Refusal.upstream(told, code="provider_key_rejected")
    if status == _TOO_MANY:
        told = f"{who} accepts no further requests now, with status {status}"
        return Refusal(
            status=status,
            type="rate_limit_error",
            code="provider_saturated",
            message=told,
            retry_after_s=retry_after_s,
        )
    if _MULTIPLE_CHOICES <= status < _MULTIPLE_CHOICES + 100:
        told = f"{who} redirects, with status {status}, which is not followed: correct its url"
        return Refusal.upstream(told, code="provider_failed")
    if status >= _SERVER_ERROR:
        told = f"{who} failed, with status {status}"
        if retry_after_s is not None:
            return Refusal.unavailable(told, code="provider_failed", retry_after_s=retry_after_s)
        return Refusal.upstream(told, code="provider_failed")
    told = (
        f"{who} rejected the request, with status {status}: its model may lack a parameter, or be too small"
    )
    return Refusal.bad_request(told, code="provider_refused", status=status)
