"""The constants of an engine, among them what a step costs in time."""

from __future__ import annotations

import math

import msgspec


class StepCosts(msgspec.Struct, frozen=True, kw_only=True):
    """The constants of the step time, in float seconds; nothing is rounded to milliseconds.

    The linear form is the one that the Gateway API Inference Extension's first simulator fitted to measured
    steps (`tools/simulations/llm_ig_simulation` at v0.3: a base, a term per sequence, a term per token in the
    KV cache; for prefill a base of its own, a term per token and a floor). There a step prefills or decodes;
    here one step does both, as chunked prefill batches them, and pays the larger base.
    """

    base_s: float
    """Reading the weights once and launching the step."""
    per_decode_sequence_s: float
    """For each sequence that decodes one token in this step."""
    per_kv_token_s: float
    """For each token of context that those sequences read from the KV cache."""
    per_prefill_token_s: float
    """For each prompt token that is prefilled in this step."""
    prefill_base_s: float = 0.0
    """What takes the place of `base_s` in a step that prefills, where it is more."""
    least_prefill_s: float = 0.0
    """A step that prefills takes at least this, before what its decoding adds."""
    per_start_s: float = 0.0
    """For each request that starts in this step: what its first token costs whatever its length."""

    def step_seconds(
        self, *, decode_sequences: int, kv_tokens: int, prefill_tokens: int, starts: int = 0
    ) -> float:
        """The part that does not change from one like step to the next, + KV tokens x c."""
        return (
            self.fixed_seconds(
                decode_sequences=decode_sequences, prefill_tokens=prefill_tokens, starts=starts
            )
            + kv_tokens * self.per_kv_token_s
        )

    def fixed_seconds(self, *, decode_sequences: int, prefill_tokens: int, starts: int) -> float:
        """base + prefill tokens x d, and at least the floor; + sequences x b + starts x e."""
        if prefill_tokens:
            base_s = max(self.base_s, self.prefill_base_s) + prefill_tokens * self.per_prefill_token_s
            base_s = max(base_s, self.least_prefill_s)
        else:
            base_s = self.base_s
        return base_s + decode_sequences * self.per_decode_sequence_s + starts * self.per_start_s


class ConfigError(ValueError):
    """An engine cannot work with these settings; the message names each one and what would do."""


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the step model needs to know about an engine. Checked when it is made."""

    costs: StepCosts
    step_jitter: float = 0.0
    """How far the times of steps lie around what they should be: their deviation as a share of it."""
    start_jitter: float = 0.0
    """The same for the part of a step that is for the requests that start in it (`costs.per_start_s`), in
    place of `step_jitter`; 0 leaves it at that."""
    max_num_seqs: int = 256
    """Sequences that run in one batch."""
    max_model_len: int = 8192
    """Prompt and output tokens of one request together."""
    prefill_budget_tokens: int = 512
    """Prompt tokens that one step may prefill; longer prompts are prefilled in chunks."""
    kv_blocks: int = 2810
    block_size: int = 16
    """Tokens in one KV block."""
    kv_bytes_per_token: int = 131_072
    """Size of a token's keys and values: what is transferred where prefill and decode are apart."""
    prefix_cache: bool = True
    """Whether blocks of a prompt are found again by those who share it."""
    kv_events: bool = True
    """Whether `Engine.take_kv_events` has something to tell: it keeps all events until it is called."""
    host_kv_blocks: int = 0
    """Blocks of a second cache in the host's memory, which has what the first one drops."""
    host_token_s: float = 0.0
    """How much longer a step takes for each cached token that it gets from there."""
    disk_kv_blocks: int = 0
    """Blocks of a third cache, on a disk, which has what the host's memory drops."""
    disk_latency_s: float = 0.0
    """How much longer a step takes for each request that it starts with cached tokens from there."""
    disk_bytes_per_s: float = 3e9
    """How fast those come, at `kv_bytes_per_token` each; 3 GB/s is a good local disk."""
    remote_kv_blocks: int = 0
    """Blocks of a store that all engines share which have one: they put there what they compute."""
    remote_latency_s: float = 0.0
    """How much longer a step takes for each request that it starts with cached tokens from there."""
    remote_bytes_per_s: float = 1e10
    """How fast those come, at `kv_bytes_per_token` each; 10 GB/s is a network of 100 Gbit/s."""
    max_adapters: int = 8
    """Adapters in memory at a time."""
    adapter_load_s: float = 0.0
    """How much longer a step takes for each adapter that it loads."""
    max_host_adapters: int = 0
    """Adapters that the host's memory keeps, among them those of `max_adapters`; 0 keeps none there."""
    adapter_host_load_s: float = 0.0
    """What a step has for `adapter_load_s` for an adapter that it finds there."""
    adapter_kv_blocks: int = 0
    """KV blocks whose memory a loaded adapter takes."""
    power_w: float = 0.0
    """What its accelerators draw while a step runs."""
    idle_power_w: float = 0.0
    """What they draw otherwise."""
    dollars_per_hour: float = 0.0
    """What they cost, busy or not."""
    by_priority: bool = False
    """Whether requests start, and are preempted, by their priority; otherwise who came first goes first."""
    draft_tokens: int = 0
    """Tokens that a step drafts for each sequence that decodes (speculative decoding); 0 drafts none."""
    draft_acceptance: float = 0.7
    """How likely each of them is accepted, if those before it were."""
    draft_token_s: float = 0.0
    """How much longer a step takes for each token that it drafts ahead, for all sequences together."""
    max_waiting: int = 1000
    """Requests that the engine takes beyond the `max_num_seqs` that it can run; more are refused."""

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
        # With this, the oldest request can always run once all others are preempted, so no request starves.
        adapters = self.max_adapters * self.adapter_kv_blocks
        if (self.kv_blocks - adapters) * self.block_size >= self.max_model_len:
            return []
        beside = f" beside {adapters} for adapters" if adapters else ""
        return [
            f"kv_blocks: {self.kv_blocks} blocks of {self.block_size} tokens hold less{beside} than one "
            f"request of max_model_len {self.max_model_len}; raise kv_blocks or lower max_model_len"
        ]
