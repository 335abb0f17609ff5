"""The decision about one request: the pool that serves it, and the body that the endpoint gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate import routing, scheduling

if TYPE_CHECKING:
    from headgate.fleet.scripts import Amounts
    from headgate.requests.bodies import large
    from headgate.requests.bodies.pieces import Pieces
    from headgate.requests.pool_state import PoolState
    from headgate.requests.refusal import Refusal

UNREAD: Final = scheduling.Request(model="", prompt_tokens=0)
"""For a request that reaches no pool."""


class Decision:
    """The destination of one request. If it is refused, the fields are set as far as the decision got."""

    __slots__ = (
        "body",
        "change",
        "client_name",
        "match",
        "model",
        "pool",
        "prompt_amounts",
        "prompt_bytes",
        "refusal",
        "scheduled",
        "stream",
        "target",
        "upstream_model",
        "usage_unasked",
    )

    def __init__(self) -> None:
        self.model = ""
        """The model that the client requested."""
        self.stream = False
        self.match: routing.Match | None = None
        self.target: routing.Target | None = None
        self.pool: PoolState | None = None
        self.upstream_model = ""
        """The model name sent to the endpoint: the target's, else the endpoint's own name for the model, if
        it has one, or the adapter's."""
        self.scheduled = UNREAD
        """The request as the scheduler sees it."""
        self.prompt_bytes = 0
        """Length of the prompt, if its tokens are estimated from that alone; 0 otherwise."""
        self.prompt_amounts: Amounts | None = None
        """The amount of text per script, if the prompt is not all ASCII."""
        self.body: bytes | Pieces = b""
        """Sent to the endpoint; dropped once no further attempt can follow."""
        self.change: large.Change | None = None
        """For a large JSON body, its difference from the client's body; dropped together with `body`."""
        self.client_name = b""
        """The client's model name as a JSON string, to restore in the response; empty if the endpoint uses
        the same name."""
        self.usage_unasked = False
        """Whether the gateway asks for the usage of a stream for which the client did not ask."""
        self.refusal: Refusal | None = None

    @property
    def fallback(self) -> routing.Fallback | None:
        """What takes over from its route, or else from its pool; None if nothing does."""
        match, pool = self.match, self.pool
        fallback = None if match is None else match.route.fallback
        return pool.pool.fallback if fallback is None and pool is not None else fallback
