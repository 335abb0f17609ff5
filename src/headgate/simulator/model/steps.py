"""The steps under way: one, or several like ones, with the end of each."""

from bisect import bisect_left

import msgspec

from headgate.simulator.model.batch import StepWork
from headgate.simulator.model.config import EngineConfig
from headgate.simulator.model.costs import StepCosts
from headgate.simulator.model.request import Emission, StepPlan


class Steps:
    """What is worked on, when each step ends, and what came of those that are over."""

    __slots__ = ("_ends", "chunks", "decoding", "done", "emitted", "plan")

    def __init__(self, config: EngineConfig, now: float, work: StepWork, steps: int, slowdown: float) -> None:
        self.decoding = work.decoding
        self.chunks = work.chunks
        self.done = 0
        """Steps that are over and accounted."""
        self.emitted: list[Emission] = []
        prefill_tokens = sum(tokens for _, tokens in work.chunks)
        kv_tokens = sum(sequence.computed for sequence in work.decoding)
        first_s = config.costs.step_seconds(
            # A drafted token is checked as if it were the next one of a sequence of its own.
            decode_sequences=len(work.decoding) * (1 + config.draft_tokens),
            kv_tokens=kv_tokens,
            prefill_tokens=prefill_tokens,
            starts=len(work.admitted),
        )
        first_s += work.adapters_loaded * config.adapter_load_s
        first_s += work.adapters_from_host * config.adapter_host_load_s
        if work.decoding:
            first_s += config.draft_tokens * config.draft_token_s
        if config.host_kv_blocks:
            first_s += sum(each.host_tokens for each in work.admitted) * config.host_token_s
        self._ends = [now + first_s * slowdown]
        if steps > 1:
            self._add_steps(config.costs, steps - 1, kv_tokens, prefill_tokens, slowdown)
        self.plan = StepPlan(
            starts_s=now,
            ends_s=self._ends[-1],
            decode_sequences=len(work.decoding),
            kv_tokens=kv_tokens,
            prefill_tokens=prefill_tokens,
            admitted=tuple(sequence.request.request_id for sequence in work.admitted),
            cached_tokens=tuple(sequence.found_tokens for sequence in work.admitted),
            preempted=tuple(sequence.request.request_id for sequence in work.preempted),
            steps=steps,
        )

    @property
    def prefills_all_it_can(self) -> bool:
        """Whether one prompt takes the whole budget in each of several steps."""
        return self.plan.steps > 1 and bool(self.chunks)

    def end_of(self, step: int) -> float:
        """When a step ends, the first being 0; of step -1, when the first one begins."""
        return self._ends[step] if step >= 0 else self.plan.starts_s

    def cut(self, now: float) -> int:
        """Let the step that is under way at `now` be the last, and give its number."""
        last = min(bisect_left(self._ends, now), len(self._ends) - 1)
        del self._ends[last + 1 :]
        self.plan = msgspec.structs.replace(self.plan, ends_s=self._ends[-1], steps=last + 1)
        return last

    def _add_steps(
        self, costs: StepCosts, steps: int, kv_tokens: int, prefill_tokens: int, slowdown: float
    ) -> None:
        """The further ends, each summed as a single step's would be: in this order, so to the same bits."""
        growth = len(self.decoding)
        fixed_s = costs.fixed_seconds(decode_sequences=growth, prefill_tokens=prefill_tokens, starts=0)
        per_kv_token_s = costs.per_kv_token_s
        ends = self._ends
        now = ends[0]
        for _ in range(steps):
            kv_tokens += growth
            now += (fixed_s + kv_tokens * per_kv_token_s) * slowdown
            ends.append(now)
