"""The constants of an engine, including the time costs of a step."""

from __future__ import annotations

import math

import msgspec


class StepCosts(msgspec.Struct, frozen=True, kw_only=True):
    """Constants of the step time, in float seconds; nothing is rounded to milliseconds.

    The linear form is the one that the Gateway API Inference Extension's first simulator fitted to measured
    steps (`tools/simulations/llm_ig_simulation` at v0.3: a base, a term per sequence, a term per token in the
    KV cache; for prefill a separate base, a term per token and a floor). There, a step prefills or decodes;
    here one step does both, as with chunked prefill, and pays the larger base.
    """

    base_s: float
    """Reading the weights once and launching the step."""
    per_decode_sequence_s: float
    """For each sequence that decodes one token in this step."""
    per_kv_token_s: float
    """For each context token that these sequences read from the KV cache."""
    per_prefill_token_s: float
    """For each prompt token prefilled in this step."""
    prefill_base_s: float = 0.0
    """Replaces `base_s` in a step that prefills, if larger."""
    least_prefill_s: float = 0.0
    """Minimum time of a step that prefills, before decoding is added."""
    per_start_s: float = 0.0
    """For each request that starts in this step: the cost of its first token, whatever its length."""

    def step_seconds(
        self, *, decode_sequences: int, kv_tokens: int, prefill_tokens: int, starts: int = 0
    ) -> float:
        """The fixed part of equal steps, + KV tokens x c."""
        return (
            self.fixed_seconds(
                decode_sequences=decode_sequences, prefill_tokens=prefill_tokens, starts=starts
            )
            + kv_tokens * self.per_kv_token_s
        )

    def fixed_seconds(self, *, decode_sequences: int, prefill_tokens: int, starts: int) -> float:
        """base + prefill tokens x d, at least the floor; + sequences x b + starts x e."""
        if prefill_tokens:
            base_s = max(self.base_s, self.prefill_base_s) + prefill_tokens * self.per_prefill_token_s
            base_s = max(base_s, self.least_prefill_s)
        else:
            base_s = self.base_s
        return base_s + decode_sequences * self.per_decode_sequence_s + starts * self.per_start_s


class ConfigError(ValueError):
    """Invalid settings of an engine; the message names each one with its valid range."""


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the step model needs to know about an engine. Validated on construction."""

    costs: StepCosts
    step_jitter: float = 0.0
    """Standard deviation of step times, as a fraction of the mean."""
    start_jitter: float = 0.0
    """Replaces `step_jitter` in the time of starting requests (`costs.per_start_s`), unless 0."""
    max_num_seqs: int = 256
    """Maximum sequences in the batch."""
    max_model_len: int = 8192
    """Maximum prompt and output tokens of one request together."""
    prefill_budget_tokens: int = 512
    """Maximum prompt tokens prefilled in one step; longer prompts are prefilled in chunks."""
    kv_blocks: int = 2810
    block_size: int = 16
    """Tokens per KV block."""
    kv_bytes_per_token: int = 131_072
    """KV cache bytes per token; the size of transfers between prefill and decode engines."""
    prefix_cache: bool = True
    """Whether requests share the cached blocks of common prefixes."""
    kv_events: bool = True
    """Whether to record events for `Engine.take_kv_events`; all are kept until it is called."""
    host_kv_blocks: int = 0
    """Blocks of a second cache in host memory, for blocks evicted from the first."""
    host_token_s: float = 0.0
    """Added to a step for each cached token loaded from there."""
    disk_kv_blocks: int = 0
    """Blocks of a third cache on disk, for blocks evicted from host memory."""
    disk_latency_s: float = 0.0
    """Added to a step for each request that starts with cached tokens from there."""
    disk_bytes_per_s: float = 3e9
    """Bandwidth of such loads, at `kv_bytes_per_token` each; 3 GB/s is a good local disk."""
    remote_kv_blocks: int = 0
    """Blocks of a store shared by all engines that have one; each stores what it computes."""
    remote_latency_s: float = 0.0
    """Added to a step for each request that starts with cached tokens from there."""
    remote_bytes_per_s: float = 1e10
    """Bandwidth of such loads, at `kv_bytes_per_token` each; 10 GB/s is a 100 Gbit/s network."""
    max_adapters: int = 8
    """Adapters loaded at the same time."""
    adapter_load_s: float = 0.0
    """Added to a step for each adapter that it loads."""
    max_host_adapters: int = 0
    """Adapters kept in host memory, including the `max_adapters` loaded ones; 0 keeps none."""
    adapter_host_load_s: float = 0.0
    """Replaces `adapter_load_s` for adapters found in host memory."""
    adapter_kv_blocks: int = 0
    """KV blocks whose memory a loaded adapter takes."""
    power_w: float = 0.0
    """Power of its accelerators during a step."""
    idle_power_w: float = 0.0
    """Their power otherwise."""
    dollars_per_hour: float = 0.0
    """Cost of the accelerators, busy or not."""
    by_priority: bool = False
    """Whether requests start, and are preempted, by priority instead of first come, first served."""
    draft_tokens: int = 0
    """Tokens drafted per decoding sequence and step (speculative decoding); 0 disables it."""
    draft_acceptance: float = 0.7
    """Probability that a drafted token is accepted if those before it were."""
    draft_token_s: float = 0.0
    """Added to a step for each token that it drafts ahead, for all sequences together."""
    max_waiting: int = 1000
    """Requests queued beyond `max_num_seqs`; more are rejected."""

    def __post_init__(self) -> None:
        problems = [*self._out_of_range(), *self._too_small_together()]
        if problems:
            raise ConfigError("; ".join(problems))

    def _out_of_range(self) -> list[str]:
        at_least = {
            "max_num_seqs": 1,
            "max_model_len": 2,
            "prefill_budget_tokens": 1,
            "kv_blocks": 1,
            "block_size": 1,
            "kv_bytes_per_token": 1,
            "max_waiting": 0,
            "host_kv_blocks": 0,
            "host_token_s": 0,
            "disk_kv_blocks": 0,
            "disk_latency_s": 0,
            "remote_kv_blocks": 0,
            "remote_latency_s": 0,
            "max_adapters": 0,
            "adapter_load_s": 0,
            "max_host_adapters": 0,
            "adapter_host_load_s": 0,
            "adapter_kv_blocks": 0,
            "step_jitter": 0,
            "start_jitter": 0,
            "draft_tokens": 0,
            "draft_token_s": 0,
            "power_w": 0,
            "idle_power_w": 0,
            "dollars_per_hour": 0,
        }
        problems = [
            f"{name}: must be at least {least}, got {getattr(self, name)}"
            for name, least in at_least.items()
            if getattr(self, name) < least
        ]
        if 0 < self.max_host_adapters < self.max_adapters:
            problems.append(
                f"max_host_adapters: must be at least max_adapters {self.max_adapters}, as the host keeps "
                f"those too, got {self.max_host_adapters}"
            )
        problems += [
            f"{name}: must be more than 0, got {getattr(self, name)}"
            for name in ("disk_bytes_per_s", "remote_bytes_per_s")
            if not getattr(self, name) > 0
        ]
        if not 0 <= self.draft_acceptance <= 1:
            problems.append(f"draft_acceptance: must be 0 to 1, got {self.draft_acceptance}")
        for name in self.costs.__struct_fields__:
            seconds = getattr(self.costs, name)
            if not (math.isfinite(seconds) and seconds >= 0):
                problems.append(
                    f"costs.{name}: must be a number of seconds that is not negative, got {seconds}"
                )
        return problems

    def _too_small_together(self) -> list[str]:
        # Ensures that the oldest request can run once all others are preempted, so no request starves.
        adapters = self.max_adapters * self.adapter_kv_blocks
        if (self.kv_blocks - adapters) * self.block_size >= self.max_model_len:
            return []
        beside = f" beside {adapters} for adapters" if adapters else ""
        return [
            f"kv_blocks: {self.kv_blocks} blocks of {self.block_size} tokens hold less{beside} than one "
            f"request of max_model_len {self.max_model_len}; raise kv_blocks or lower max_model_len"
        ]
