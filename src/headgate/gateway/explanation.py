"""What is told about a request: the value that `/debug/explain` and `headgate route explain` print."""

from __future__ import annotations

import msgspec


class RuleShown(msgspec.Struct, frozen=True, kw_only=True):
    """One rule: what it asks of a request, whether it serves this one, and the reason."""

    name: str
    conditions: tuple[str, ...]
    serves: bool
    why: str


class LimitShown(msgspec.Struct, frozen=True, kw_only=True):
    """One direction of a route's token limit."""

    direction: str
    tokens: int
    unit: str
    """The unit of time in which there are so many."""
    available: int | None
    """What is left of them, negative if more was used; None where that is not known."""
    reserved: int | None
    """What requests under way hold."""


class RouteShown(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate route; candidates are asked in their order."""

    name: str
    """As logs and metrics have it."""
    object: str
    """Kind, namespace and name of what it is made of."""
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
    """What a client would be told."""

    status: int
    headers: dict[str, str]
    body: str


class TargetShown(msgspec.Struct, frozen=True, kw_only=True):
    """One target of the rule that serves, and what would become of the request there."""

    model_server: str
    """Its pool, as logs and metrics have it."""
    pool: str
    """Kind, namespace and name of the pool."""
    weight: int
    share: float
    """Of the rule's requests, from 0 to 1."""
    is_next: bool | None
    """Whether it has the turn; None where that is not known, as turns are each gateway's own."""
    upstream_model: str | None
    """What the endpoint is asked for."""
    names_model: bool
    """Whether the target says that, and not the pool."""
    priority: int
    """Of the request there; 0 is what is usual."""
    changes: tuple[str, ...]
    """What is changed in the body on the way."""
    body: str | None
    """The body that is sent; None if it is long or no text."""
    prompt_tokens_estimate: int
    endpoints: tuple[EndpointShown, ...] | None
    """None where they are not known."""
    answer: Answer | None
    """The refusal, if it would be refused."""
    waits: str = ""
    """What it would wait for before it is sent; empty where it would not, and where that is not known."""
    absent: tuple[str, ...] = ()
    """Pods that are selected and are no endpoints, with the reason, where that is known."""

    @property
    def endpoint(self) -> EndpointShown | None:
        """The one that is picked."""
        return next((each for each in self.endpoints or () if each.picked), None)


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The whole way of one request."""

    model: str
    path: str
    stream: bool
    is_live: bool
    """Whether it speaks of a gateway as it is now, or of objects alone."""
    routes: tuple[RouteShown, ...]
    shadowed: tuple[str, ...]
    """Routes that have the name as an adapter, where others have it as their model."""
    similar: tuple[str, ...]
    """Names that have a route, for one that has none."""
    targets: tuple[TargetShown, ...]
    answer: Answer | None
    """The refusal, if the request comes to no target at all."""
    problems: tuple[str, ...]
    """Faults of the objects on its way."""

    @property
    def decided(self) -> TargetShown | None:
        """The target that the request goes to; None if it is refused before, or that is not known."""
        return next((target for target in self.targets if target.is_next), None)
