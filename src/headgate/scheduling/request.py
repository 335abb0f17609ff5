"""What the scheduler is told of a request; nothing here reads a body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from headgate.fleet import EndpointState, answer_sizes, estimator


def _no_header(_: bytes) -> str:
    return ""


class Request(msgspec.Struct, kw_only=True):
    """One request as the endpoints of a pool would get it."""

    model: str
    """What the endpoint is asked for: the served name, or the adapter's."""
    prompt_tokens: int
    """Estimated, until an engine has counted them."""
    adapter: str = ""
    """The adapter's name; empty where the base model is asked for."""
    output_tokens: int = 0
    """How long the answer is expected to be; 0 where nothing is known."""
    prefix: Sequence[int] = ()
    """Chained hashes of the prompt's blocks, the first block first; empty where the policy uses none."""
    block_tokens: float = 0.0
    """Tokens in one block of `prefix`, as estimated; in one unit, where blocks differ in length."""
    block_ends: Sequence[float] = ()
    """Where in the prompt its blocks end, in units; empty where each is one unit long."""
    priority: int = 0
    """Critical is 1, default 0, sheddable -1; objectives have any sign. Requests by ModelRoutes have none of
    these, and are default."""
    role: Literal["", "prefill", "decode"] = ""
    """The phase that an endpoint is picked for, where one prefills and another decodes; "" is all of it."""
    peer: EndpointState | None = None
    """Where one endpoint prefills and another decodes, the one that was picked already."""
    header: Callable[[bytes], str] = _no_header
    """The first value of a header by its lower-case name, "" if there is none."""

    @property
    def steps(self) -> float:
        """In how many steps of an engine it takes part: those of its prompt, and one for each token of its
        answer."""
        answer_tokens = self.output_tokens or answer_sizes.USUAL_TOKENS
        return answer_tokens + 1.0 + self.prompt_tokens / estimator.STEP_TOKENS

    def tokens_in(self, blocks: int) -> int:
        """How many tokens the first so many blocks of `prefix` are, as estimated: at most the prompt's."""
        if not blocks:
            return 0
        units = self.block_ends[blocks - 1] if self.block_ends else blocks
        tokens, most = int(units * self.block_tokens), self.prompt_tokens
        return tokens if tokens < most else most
