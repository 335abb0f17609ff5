"""vLLM's metrics page: counts of what the engine did, gauges read when the page is asked for."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from copy import copy

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from headgate.simulator.model import (
    Emission,
    EngineConfig,
    EngineStatistics,
    FinishedRequest,
    FinishReason,
    SimulatedRequest,
)

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

TTFT_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_TIME_BUCKETS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
LATENCY_BUCKETS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)


def token_count_buckets(largest: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20, 50, ... up to the largest count that can occur."""
    series = (step * 10.0**power for power in range(12) for step in (1, 2, 5))
    return tuple(bound for bound in series if bound <= largest)


class Histogram:
    """Bucket counts of one metric. prometheus_client's own takes a lock and microseconds for each token."""

    def __init__(self, name: str, documentation: str, bounds: tuple[float, ...]) -> None:
        self.name = name
        self.documentation = documentation
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def renamed(self, name: str) -> "Histogram":
        """The same counts under the name that older readers know."""
        other = copy(self)
        other.name = name
        return other

    def collect(self, labels: dict[str, str]) -> Metric:
        total = 0
        buckets = []
        for bound, here in zip((*map(repr, self._bounds), "+Inf"), self._counts, strict=True):
            total += here
            buckets.append((bound, total))
        family = HistogramMetricFamily(self.name, self.documentation, labels=list(labels))
        family.add_metric(list(labels.values()), buckets, self._sum)
        return family


class Timings:
    """Everything that is counted as it happens, in the model's times."""

    def __init__(self, max_model_len: int) -> None:
        tokens = token_count_buckets(max_model_len)
        self.prompt_tokens = 0
        self.output_tokens = 0
        self.finished_by_reason: Counter[FinishReason] = Counter({"stop": 0, "length": 0, "abort": 0})
        self.ttft = Histogram("vllm:time_to_first_token_seconds", "Arrival to first token.", TTFT_BUCKETS)
        self.inter_token = Histogram(
            "vllm:inter_token_latency_seconds", "Token to next token of a request.", TOKEN_TIME_BUCKETS
        )
        self.tpot = Histogram(
            "vllm:request_time_per_output_token_seconds",
            "Mean time of a request's tokens.",
            TOKEN_TIME_BUCKETS,
        )
        self.e2e = _latency("e2e_request_latency", "Arrival to end.")
        self.queue = _latency("request_queue_time", "Arrival to first step.")
        self.inference = _latency("request_inference_time", "First step to end.")
        self.prefill = _latency("request_prefill_time", "First step to first token.")
        self.decode = _latency("request_decode_time", "First token to end.")
        self.prompt_size = Histogram("vllm:request_prompt_tokens", "Prompt tokens.", tokens)
        self.output_size = Histogram("vllm:request_generation_tokens", "Output tokens.", tokens)
        self.asked_size = Histogram("vllm:request_params_max_tokens", "Output tokens asked for.", tokens)
        self.longest_output = Histogram(
            "vllm:request_max_num_generation_tokens", "Output tokens of the longest choice.", tokens
        )

    def token(self, emission: Emission, request: SimulatedRequest) -> None:
        self.output_tokens += 1
        if emission.position:
            self.inter_token.observe(emission.gap_s)
        else:
            self.prompt_tokens += request.prompt_tokens
            self.ttft.observe(emission.gap_s)

    def finished(self, end: FinishedRequest, request: SimulatedRequest) -> None:
        self.finished_by_reason[end.reason] += 1
        self.e2e.observe(end.finished_s - end.arrived_s)
        self.prompt_size.observe(request.prompt_tokens)
        self.output_size.observe(end.output_tokens)
        self.longest_output.observe(end.output_tokens)  # choices are sequences of their own here
        self.asked_size.observe(request.output_tokens)
        if end.started_s is not None:
            self.queue.observe(end.started_s - end.arrived_s)
            self.inference.observe(end.finished_s - end.started_s)
        if end.started_s is not None and end.first_token_s is not None:
            self.prefill.observe(end.first_token_s - end.started_s)
            self.decode.observe(end.finished_s - end.first_token_s)
        if end.tpot_s is not None:
            self.tpot.observe(end.tpot_s)

    def histograms(self) -> tuple[Histogram, ...]:
        return (
            *(self.ttft, self.inter_token, self.inter_token.renamed("vllm:time_per_output_token_seconds")),
            *(self.tpot, self.e2e, self.queue, self.inference, self.prefill, self.decode),
            *(self.prompt_size, self.output_size, self.asked_size, self.longest_output),
        )


class MetricsPage(Collector):
    """Renders /metrics from the timings and a reading of the engine, in a registry of its own."""

    def __init__(
        self,
        model_name: str,
        config: EngineConfig,
        timings: Timings,
        statistics: Callable[[], EngineStatistics],
        started_unix_s: float,
    ) -> None:
        self._labels = {"engine": "0", "model_name": model_name}
        self._config = config
        self._timings = timings
        self._statistics = statistics
        self._started_unix_s = started_unix_s
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def render(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        now = self._statistics()
        yield self._gauge("vllm:num_requests_running", "Requests in the running batch.", now.running)
        yield self._gauge("vllm:num_requests_waiting", "Requests in the waiting queue.", now.waiting)
        yield self._gauge("vllm:kv_cache_usage_perc", "Used share of the KV blocks, 0 to 1.", now.kv_usage)
        yield self._gauge(
            "vllm:cache_config_info",
            "Size of the KV cache.",
            1,
            block_size=str(self._config.block_size),
            num_gpu_blocks=str(self._config.kv_blocks),
        )
        yield self._gauge(
            "vllm:lora_requests_info",
            "Adapters in use; this engine loads none.",
            self._started_unix_s,
            max_lora="0",
            running_lora_adapters="",
            waiting_lora_adapters="",
        )
        yield from self._counters(now)
        for histogram in self._timings.histograms():
            yield histogram.collect(self._labels)

    def _counters(self, now: EngineStatistics) -> Iterable[Metric]:
        timings = self._timings
        yield self._counter("vllm:prompt_tokens", "Prefilled prompt tokens.", timings.prompt_tokens)
        yield self._counter("vllm:generation_tokens", "Generated tokens.", timings.output_tokens)
        yield self._counter("vllm:num_preemptions", "Preemptions by recompute.", now.preempted_total)
        yield self._counter("vllm:prefix_cache_queries", "Tokens looked up.", now.prefix_queries_total)
        yield self._counter("vllm:prefix_cache_hits", "Tokens found.", now.prefix_hits_total)
        ended = CounterMetricFamily(
            "vllm:request_success", "Ended requests.", labels=[*self._labels, "finished_reason"]
        )
        for reason, number in timings.finished_by_reason.items():
            ended.add_metric([*self._labels.values(), reason], number)
        yield ended

    def _gauge(self, name: str, documentation: str, value: float, **labels: str) -> Metric:
        every = {**self._labels, **labels}
        family = GaugeMetricFamily(name, documentation, labels=list(every))
        family.add_metric(list(every.values()), value)
        return family

    def _counter(self, name: str, documentation: str, value: float) -> Metric:
        family = CounterMetricFamily(name, documentation, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family


def _latency(name: str, documentation: str) -> Histogram:
    return Histogram(f"vllm:{name}_seconds", documentation, LATENCY_BUCKETS)
