"""Everything that is counted as it happens, in the model's times, without jitter of timers and sockets."""

from collections import Counter

from headgate.simulator.model import Emission, FinishedRequest, FinishReason, SimulatedRequest
from headgate.simulator.server.metrics.histogram import (
    LATENCY_BUCKETS,
    TOKEN_TIME_BUCKETS,
    TTFT_BUCKETS,
    Histogram,
    token_count_buckets,
)


class Timings:
    """Counts and histograms of one data-parallel rank."""

    def __init__(self, max_model_len: int) -> None:
        tokens = token_count_buckets(max_model_len)
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.output_tokens = 0
        self.finished_by_reason: Counter[FinishReason] = Counter({"stop": 0, "length": 0, "abort": 0})
        self.ttft = Histogram(TTFT_BUCKETS)
        """Arrival to first token."""
        self.inter_token = Histogram(TOKEN_TIME_BUCKETS)
        """Token to next token of a request; those of one step count once, as in vLLM."""
        self.tpot = Histogram(TOKEN_TIME_BUCKETS)
        """Mean time of a request's tokens after the first."""
        self.e2e = Histogram(LATENCY_BUCKETS)
        """Arrival to end."""
        self.queue = Histogram(LATENCY_BUCKETS)
        """Arrival to first step."""
        self.inference = Histogram(LATENCY_BUCKETS)
        """First step to end."""
        self.prefill = Histogram(LATENCY_BUCKETS)
        """First step to first token."""
        self.decode = Histogram(LATENCY_BUCKETS)
        """First token to end."""
        self.prompt_size = Histogram(tokens)
        self.output_size = Histogram(tokens)
        self.asked_size = Histogram(tokens)

    def token(self, emission: Emission, request: SimulatedRequest) -> None:
        self.output_tokens += emission.tokens
        if emission.position:
            self.inter_token.observe(emission.gap_s)
        else:
            self.prompt_tokens += request.prompt_tokens
            self.ttft.observe(emission.gap_s)

    def finished(self, end: FinishedRequest, request: SimulatedRequest) -> None:
        self.finished_by_reason[end.reason] += 1
        self.cached_tokens += end.cached_tokens
        self.e2e.observe(end.finished_s - end.arrived_s)
        self.prompt_size.observe(request.prompt_tokens)
        self.output_size.observe(end.output_tokens)
        self.asked_size.observe(request.output_tokens)
        if end.started_s is not None:
            self.queue.observe(end.started_s - end.arrived_s)
            self.inference.observe(end.finished_s - end.started_s)
        if end.started_s is not None and end.first_token_s is not None:
            self.prefill.observe(end.first_token_s - end.started_s)
            self.decode.observe(end.finished_s - end.first_token_s)
        if end.tpot_s is not None:
            self.tpot.observe(end.tpot_s)
