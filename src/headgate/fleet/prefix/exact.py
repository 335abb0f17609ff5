"""Corrects the believed prefix of each endpoint by what its engine reports.

It applies to the blocks of a prompt whose tokens are known. If an engine lacks some of them, its report is
exact. If it has them all, or the tokens are not known yet, the belief continues from there. An engine that
started before the gateway may hold more than it reported, so it is credited with at least the belief.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from headgate.fleet.ledger import EndpointState
from headgate.fleet.prefix.chains import PromptChains
from headgate.fleet.prefix.residency import Residency

MAX_PROMPT_BLOCKS = 32_768
"""Blocks of one prompt: half a million tokens in blocks of 16, which take 10 ms to hash."""


MAX_CHAINS = 8
"""Different block sizes in tokens, of which each engine could report another."""


class ExactIndex:
    """The reports of engines that publish KV events, and the token blocks of prompts."""

    def __init__(self) -> None:
        self.residency = Residency()
        self._chains: dict[int, PromptChains] = {}
        """By tokens per block: engines may differ."""

    def corrected(
        self, counts: list[int], prefix: Sequence[int], loads: Sequence[EndpointState]
    ) -> list[int]:
        """How many whole blocks each endpoint holds, given the believed counts."""
        return list(map(int, self.weighed(counts, prefix, loads)))

    def weighed(
        self, counts: Sequence[float], prefix: Sequence[int], loads: Sequence[EndpointState]
    ) -> list[float]:
        """How many blocks each endpoint holds, given the believed counts. Blocks outside of the accelerator's
        memory count for less."""
        counts = list(counts)
        for chains in self._chains.values():
            known = chains.of(prefix)
            if known:
                self._correct(counts, known, loads, chains.block_tokens)
        return counts

    def _correct(
        self, counts: list[float], known: Sequence[int], loads: Sequence[EndpointState], block_tokens: int
    ) -> None:
        accounts = self.residency.accounts(loads)
        held_by, worth_of = self.residency.held(known, accounts)
        whole = len(known)
        for n, account in enumerate(accounts):
            if account is None or (account.block_tokens and account.block_tokens != block_tokens):
                continue
            held, worth = held_by[n], worth_of[n]
            if held == whole:
                further = counts[n] - held
                counts[n] = worth + further if further > 0 else worth
            elif account.is_complete or worth > counts[n]:
                counts[n] = worth

    def expect(self, prefix: Sequence[int], load: EndpointState, now: float) -> None:
        """Record that a prompt was sent to an engine, which will report its blocks soon."""
        chains = self._chains.get(self._block_tokens(load))
        if chains is not None:
            self.residency.expect(load, chains.of(prefix), now)

    def wants(self, prefix: Sequence[int], load: EndpointState) -> bool:
        """Whether it is worth learning the tokens of a prompt that was sent to an engine."""
        block_tokens = self._block_tokens(load)
        if not block_tokens or not prefix:
            return False
        chains = self._chains.get(block_tokens)
        return chains is None or not chains.knows(prefix)

    def learn(
        self,
        prefix: Sequence[int],
        shares: Sequence[float],
        tokens: array[int],
        adapter: str,
        load: EndpointState,
        now: float,
    ) -> None:
        """Learn the tokens of a prompt that was sent to an engine. `shares`: how much of the prompt lies
        before the end of each block. A prompt with too many blocks is ignored."""
        block_tokens = self._block_tokens(load)
        if not block_tokens or len(tokens) > MAX_PROMPT_BLOCKS * block_tokens:
            return
        chains = self._chains.get(block_tokens)
        if chains is None:
            if len(self._chains) >= MAX_CHAINS:
                del self._chains[next(iter(self._chains))]
            chains = self._chains[block_tokens] = PromptChains(block_tokens)
        self.residency.expect(load, chains.learn(prefix, shares, tokens, adapter), now)

    def _block_tokens(self, load: EndpointState) -> int:
        """Tokens per block, from the engine's events or else its metrics; 0 if unknown."""
        told = self.residency.block_tokens(load)
        if told or load not in self.residency:
            return told
        return (load.reading.block_tokens or 0) if load.reading is not None else 0

    def statistics(self) -> dict[str, int]:
        return {
            "publishing": len(self.residency.loads()),
            "tokenized_blocks": sum(map(len, self._chains.values())),
            "unplaced": self.residency.unplaced,
        }
