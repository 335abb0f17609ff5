"""In whatever order things happen, blocks are conserved, nobody overtakes, each request ends exactly once."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headgate.simulator.model import (
    BlockRemoved,
    BlockStored,
    Engine,
    EngineConfig,
    QueueFullError,
    RequestId,
    SimulatedRequest,
    StepCosts,
)

COSTS = StepCosts(base_s=1.0, per_decode_sequence_s=0.1, per_kv_token_s=0.001, per_prefill_token_s=0.01)
CONTEXT = 40


class EngineAccounts(RuleBasedStateMachine):
    """Submits, cancels and steps at random, and keeps books of its own."""

    @initialize(
        seqs=st.integers(1, 4),
        budget=st.integers(1, 30),
        block_size=st.integers(1, 8),
        spare_blocks=st.integers(0, 6),
        max_waiting=st.integers(0, 6),
        host_blocks=st.sampled_from([0, 0, 10]),
        drafts=st.sampled_from([0, 0, 3]),
    )
    def start(
        self,
        seqs: int,
        budget: int,
        block_size: int,
        spare_blocks: int,
        max_waiting: int,
        host_blocks: int,
        drafts: int,
    ) -> None:
        self.config = EngineConfig(
            costs=COSTS,
            max_num_seqs=seqs,
            max_model_len=CONTEXT,
            prefill_budget_tokens=budget,
            kv_blocks=-(-CONTEXT // block_size) + spare_blocks,
            block_size=block_size,
            max_waiting=max_waiting,
            host_kv_blocks=host_blocks,
            draft_tokens=drafts,
        )
        self.engine = Engine(self.config)
        self.now = 0.0
        self.stepping = False
        self.asked: dict[RequestId, SimulatedRequest] = {}
        self.tokens: dict[RequestId, int] = {}
        self.ended: dict[RequestId, str] = {}
        self.first_admissions: list[RequestId] = []
        self.findable: set[int] = set()
        self.in_host: set[int] = set()

    @rule(
        prompt=st.integers(1, CONTEXT - 1),
        output=st.integers(1, CONTEXT),
        family=st.integers(0, 2),
        tells_answer=st.booleans(),
    )
    def submit(self, prompt: int, output: int, family: int, tells_answer: bool) -> None:
        behind_prompt = family * CONTEXT + prompt // self.config.block_size
        request = SimulatedRequest(
            request_id=RequestId(str(len(self.asked))),
            prompt_tokens=prompt,
            output_tokens=min(output, CONTEXT - prompt),
            blocks=range(family * CONTEXT, family * CONTEXT + prompt) if family else (),
            answer_blocks=range(behind_prompt, behind_prompt + output) if family and tells_answer else (),
        )
        unfinished = len(self.asked) - len(self.ended)
        try:
            self.engine.submit(request, self.now)
        except QueueFullError:
            assert unfinished == self.config.max_num_seqs + self.config.max_waiting
        else:
            self.asked[request.request_id] = request
            self.tokens[request.request_id] = 0

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.asked)))
        end = self.engine.cancel(request_id, self.now)
        assert (end is None) == (request_id in self.ended)
        if end is not None:
            assert (end.reason, end.output_tokens) == ("abort", self.tokens[request_id])
            self.ended[request_id] = "abort"

    @precondition(lambda self: not self.stepping)
    @rule()
    def begin_step(self) -> None:
        plan = self.engine.begin_step(self.now)
        assert (plan is None) == (len(self.asked) == len(self.ended)), (
            "an engine with requests must make progress"
        )
        if plan is not None:
            self.stepping = True
            assert plan.prefill_tokens <= self.config.prefill_budget_tokens
            assert not set(plan.preempted) & set(plan.admitted), "preempted for nothing"
            self.first_admissions += [name for name in plan.admitted if name not in self.first_admissions]

    @precondition(lambda self: self.stepping)
    @rule()
    def finish_step(self) -> None:
        outcome = self.engine.finish_step()
        self.stepping = False
        self.now = outcome.plan.ends_s
        for emission in outcome.emitted:
            assert emission.position == self.tokens[emission.request_id], "a token was skipped or repeated"
            assert emission.request_id not in self.ended, "a token after the end"
            self.tokens[emission.request_id] += emission.tokens
        for end in outcome.finished:
            assert end.request_id not in self.ended, "ended twice"
            self.ended[end.request_id] = end.reason
            assert (
                self.tokens[end.request_id] == end.output_tokens == self.asked[end.request_id].output_tokens
            )
            assert end.arrived_s <= end.started_s < end.first_token_s <= end.finished_s
            assert 0 <= end.cached_tokens < end.prompt_tokens

    @invariant()
    def accounts_agree(self) -> None:
        if not hasattr(self, "engine"):
            return
        self.engine.validate()
        statistics = self.engine.statistics()
        assert statistics.running <= self.config.max_num_seqs
        assert statistics.running + statistics.waiting == len(self.asked) - len(self.ended)
        assert statistics.output_tokens_total == sum(self.tokens.values())
        assert statistics.prefix_hits_total <= statistics.prefix_queries_total
        self.follow_kv_events()
        assert len(self.findable) == statistics.kv_blocks_cached
        assert self.first_admissions == sorted(self.first_admissions, key=int), "admission out of order"

    def follow_kv_events(self) -> None:
        """A reader of the events knows what can be found, and where."""
        for event in self.engine.take_kv_events():
            found = self.findable if event.medium == "GPU" else self.in_host
            if isinstance(event, BlockStored):
                assert not found & set(event.hashes), "stored twice"
                assert event.parent is None or event.parent in found, "stored without what is before"
                found |= set(event.hashes)
            elif isinstance(event, BlockRemoved):
                assert found >= set(event.hashes), "removed what was not there"
                found -= set(event.hashes)
        assert len(self.in_host) <= self.config.host_kv_blocks

    def teardown(self) -> None:
        """Left alone, the engine ends everything and holds nothing."""
        if not hasattr(self, "engine"):
            return
        while self.stepping or len(self.ended) < len(self.asked):
            if not self.stepping:
                self.begin_step()
            self.finish_step()
        self.accounts_agree()
        assert self.engine.statistics().kv_blocks_used == 0


TestEngineAccounts = EngineAccounts.TestCase
TestEngineAccounts.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
