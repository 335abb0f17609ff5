"""A request as the scheduler sees it, and the choice of an endpoint for it; nothing here reads a body."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from headgate.fleet import EndpointState, answer_sizes, estimator


def _no_header(_: bytes) -> str:
    return ""


class Request:
    """One request as the endpoints of a pool would get it. A class with slots, since compiled code reads it
    for every candidate."""

    __slots__ = (
        "adapter",
        "block_ends",
        "block_tokens",
        "header",
        "model",
        "output_tokens",
        "peer",
        "prefix",
        "priority",
        "prompt_tokens",
        "role",
    )

    def __init__(
        self,
        *,
        model: str,
        prompt_tokens: int,
        adapter: str = "",
        output_tokens: int = 0,
        prefix: Sequence[int] = (),
        block_tokens: float = 0.0,
        block_ends: Sequence[float] = (),
        priority: int = 0,
        role: Literal["", "prefill", "decode"] = "",
        peer: EndpointState | None = None,
        header: Callable[[bytes], str] = _no_header,
    ) -> None:
        self.model = model
        """The name that the endpoint gets: the served name, or the adapter's."""
        self.prompt_tokens = prompt_tokens
        """Estimated, until an engine has counted them."""
        self.adapter = adapter
        """The adapter's name; empty where the base model is asked for."""
        self.output_tokens = output_tokens
        """Expected length of the response; 0 if unknown."""
        self.prefix = prefix
        """Chained hashes of the prompt's blocks, the first block first; empty where the policy uses none."""
        self.block_tokens = block_tokens
        """Estimated tokens in one block of `prefix`; in one unit, where blocks differ in length."""
        self.block_ends = block_ends
        """Where in the prompt its blocks end, in units; empty where each is one unit long."""
        self.priority = priority
        """Critical is 1, default 0, sheddable -1; objectives have any sign. Requests by ModelRoutes have the
        default."""
        self.role: Literal["", "prefill", "decode"] = role
        """The phase to pick an endpoint for, if prefill and decode are separate; "" means both."""
        self.peer = peer
        """If prefill and decode are separate, the endpoint already picked for the other phase."""
        self.header = header
        """The first value of a header by its lower-case name, "" if there is none."""

    def for_role(self, role: Literal["prefill", "decode"], peer: EndpointState | None = None) -> Request:
        """The same request for one phase; `peer` is the endpoint that was picked for the other."""
        return Request(
            model=self.model,
            prompt_tokens=self.prompt_tokens,
            adapter=self.adapter,
            output_tokens=self.output_tokens,
            prefix=self.prefix,
            block_tokens=self.block_tokens,
            block_ends=self.block_ends,
            priority=self.priority,
            role=role,
            peer=peer if peer is not None else self.peer,
            header=self.header,
        )

    @property
    def steps(self) -> float:
        """Number of engine steps that it takes part in: those of its prompt, and one per token of its
        response."""
        response_tokens = self.output_tokens or answer_sizes.USUAL_TOKENS
        return response_tokens + 1.0 + self.prompt_tokens / estimator.STEP_TOKENS

    def tokens_in(self, blocks: int) -> int:
        """Estimated tokens of the first `blocks` blocks of `prefix`, at most those of the prompt."""
        if not blocks:
            return 0
        units = self.block_ends[blocks - 1] if self.block_ends else blocks
        tokens, most = int(units * self.block_tokens), self.prompt_tokens
        return tokens if tokens < most else most


_NO_SCORES: Final[Mapping[EndpointState, float]] = {}


class Choice:
    """The endpoint picked for a request, and its predicted first token."""

    __slots__ = ("cached_tokens", "first_token_s", "load", "scores")

    def __init__(
        self, *, load: EndpointState, cached_tokens: int = 0, first_token_s: float | None = None
    ) -> None:
        self.load = load
        self.cached_tokens = cached_tokens
        """Tokens of the prompt that the endpoint's cache is believed to hold."""
        self.first_token_s = first_token_s
        """Predicted seconds until the first token; None where the policy predicts nothing."""
        self.scores = _NO_SCORES
        """Those of all candidates, if somebody wants them; the greatest is the best."""
