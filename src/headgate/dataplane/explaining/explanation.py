"""The explanation of a request, as printed by `/debug/explain` and `headgate route explain`."""

from __future__ import annotations

import msgspec


class RuleShown(msgspec.Struct, frozen=True, kw_only=True):
    """One rule: its conditions, whether it serves the request, and why."""

    name: str
    conditions: tuple[str, ...]
    serves: bool
    why: str


class LimitShown(msgspec.Struct, frozen=True, kw_only=True):
    """One direction of a route's token limit."""

    direction: str
    tokens: int
    unit: str
    """The unit of time of the limit."""
    available: int | None
    """Tokens left, negative if more were used; None if unknown."""
    reserved: int | None
    """Tokens reserved for requests in progress."""


class RouteShown(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate route; candidates are tried in order."""

    name: str
    """As in logs and metrics."""
    object: str
    """Kind, namespace and name of its object."""
    created: str
    serves: bool
    why: str
    rules: tuple[RuleShown, ...]
    limits: tuple[LimitShown, ...] = ()


class EndpointShown(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint of a pool, as this gateway sees it."""

    name: str
    address: str
    state: str
    requests: int
    work_tokens: int
    picked: bool
    why: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The response that a client would get."""

    status: int
    headers: dict[str, str]
    body: str
    reason: str = ""
    """Of fallbacks: why they would take the request over instead; empty if none could."""


class TargetShown(msgspec.Struct, frozen=True, kw_only=True):
    """One target of the serving rule, and how the request would be handled there."""

    model_server: str
    """Name of its pool, as in logs and metrics."""
    pool: str
    """Kind, namespace and name of the pool."""
    weight: int
    share: float
    """Of the rule's requests, from 0 to 1."""
    is_next: bool | None
    """Whether it is next; None if unknown, as each gateway has its own turns."""
    upstream_model: str | None
    """The model name sent to the endpoint."""
    names_model: bool
    """Whether the target sets that name, and not the pool."""
    priority: int
    """Of the request there; 0 is the default."""
    changes: tuple[str, ...]
    """Changes to the body."""
    body: str | None
    """The body that is sent; None if it is long or not text."""
    prompt_tokens_estimate: int
    endpoints: tuple[EndpointShown, ...] | None
    """None if unknown."""
    answer: Answer | None
    """The refusal, if it would be refused."""
    waits: str = ""
    """What the request would wait for before it is sent; empty if nothing, or if unknown."""
    absent: tuple[str, ...] = ()
    """Selected Pods that are not endpoints, with the reason, if known."""

    @property
    def endpoint(self) -> EndpointShown | None:
        """The endpoint that is picked."""
        return next((each for each in self.endpoints or () if each.picked), None)


class FallbackShown(msgspec.Struct, frozen=True, kw_only=True):
    """What takes the request over if its target cannot serve it."""

    name: str
    """A model, or `pool=` and a pool."""
    reasons: tuple[str, ...]
    pool: str
    """Name of its pool; empty if it has none."""
    why_not: str
    """Why it is passed over; empty if it is not."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The explanation of one request."""

    model: str
    path: str
    stream: bool
    is_live: bool
    """Whether it describes a running gateway, or only objects."""
    routes: tuple[RouteShown, ...]
    shadowed: tuple[str, ...]
    """Routes that have the name as an adapter, while others have it as their model."""
    similar: tuple[str, ...]
    """Similar names with a route, if this one has none."""
    targets: tuple[TargetShown, ...]
    answer: Answer | None
    """The refusal, if the request reaches no target."""
    problems: tuple[str, ...]
    """Errors in the objects involved."""
    fallbacks: tuple[FallbackShown, ...] = ()
    """In their order."""

    @property
    def decided(self) -> TargetShown | None:
        """The target of the request; None if it is refused before, or if unknown."""
        return next((target for target in self.targets if target.is_next), None)
