"""The replay of a policy, and its result as text and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click
import msgspec

from headgate import engines
from headgate.api import AutoscalingPolicy
from headgate.autoscaling import Bounds, Policy, compile_policy
from headgate.cli import manifests
from headgate.cli.simulate import traffic
from headgate.simulator.autoscaling import (
    Replay,
    Score,
    Setting,
    Window,
    replay_policy,
    score,
    signals,
    windows,
    work_of,
)
from headgate.simulator.fleet import Slo
from headgate.simulator.model import DEFAULT_PROFILE, PROFILES
from headgate.traffic.traces import Arrivals

ROWS = 24
"""Lines of the text."""
MOST = 100


_UNIFIED = {
    name: unified
    for engine in engines.KNOWN
    if engine.metrics is not None
    for names, unified in (
        (engine.metrics.running, "kthena:num_requests_running"),
        (engine.metrics.waiting, "kthena:num_requests_waiting"),
        (engine.metrics.kv_usage, "kthena:kv_cache_usage_perc"),
    )
    for name in names
}
"""What a replay measures for engines' own names."""


class Run(NamedTuple):
    """A replay and what it was of."""

    policy: str
    source: str
    setting: Setting
    replay: Replay
    score: Score
    rules: Mapping[str, int]
    """How many passes each rule bounded."""

    def windows(self, count: int) -> list[Window]:
        return windows(self.replay, count)


def run(file: str, given: Mapping[str, Any]) -> Run:
    """Raises click.ClickException."""
    name, policy, bounds = _policy(file, given)
    used = traffic.of_file(
        given["trace"],
        given["format"],
        512,
        Arrivals(duration_s=given["duration"], rate_scale=given["rate_scale"]),
    )
    profile = given["profile"] or DEFAULT_PROFILE
    if profile not in PROFILES:
        raise click.UsageError(f"--profile: unknown profile {profile!r}; there are {', '.join(PROFILES)}")
    begin = given["begin_with"] or bounds.minimum
    if not bounds.minimum <= begin <= bounds.maximum:
        raise click.UsageError(f"--begin-with: must be {bounds.minimum} to {bounds.maximum}, got {begin}")
    setting = Setting(
        PROFILES[profile].config,
        given["cold_start"],
        Slo(ttft_s=given["ttft"], tpot_s=given["tpot"]),
        bounds.minimum,
        bounds.maximum,
        begin,
    )
    replayed, decisions = replay_policy(work_of(used.requests), policy, bounds, setting)
    rules: dict[str, int] = {}
    for decision in decisions:
        if decision.rule:
            rules[decision.rule] = rules.get(decision.rule, 0) + 1
    return Run(name, used.source, setting, replayed, score(replayed), rules)


def _policy(file: str, given: Mapping[str, Any]) -> tuple[str, Policy, Bounds]:
    """The policy of the file, and its bounds."""
    try:
        loaded = manifests.load([file])
    except manifests.ManifestErrors as errors:
        raise click.ClickException(str(errors)) from None
    policies = [each for each in loaded if each.kind == "AutoscalingPolicy"]
    named = [each for each in policies if given["name"] in (None, each.content["metadata"]["name"])]
    if not policies:
        raise click.ClickException(f"{file}: has no AutoscalingPolicy")
    names = ", ".join(each.content["metadata"]["name"] for each in policies)
    if not named:
        raise click.UsageError(f"--name: {file} has no AutoscalingPolicy {given['name']!r}; it has {names}")
    if len(named) > 1:
        raise click.UsageError(f"{file}: has {len(named)} AutoscalingPolicies; use --name: {names}")
    (manifest,) = named
    name = manifest.content["metadata"]["name"]
    try:
        policy = compile_policy(msgspec.convert(manifest.content, AutoscalingPolicy).spec)
    except (msgspec.ValidationError, ValueError) as error:
        raise click.ClickException(f"{manifest.source}: {error}; headgate validate explains it") from None
    metrics = tuple(metric._replace(name=_UNIFIED.get(metric.name, metric.name)) for metric in policy.metrics)
    for metric in metrics:
        if metric.name not in signals.NAMES:
            raise click.ClickException(
                f"{manifest.source}: a replay has no metric {metric.name!r}; it has "
                f"{', '.join(signals.NAMES)}, and engines' own names of the last three"
            )
    policy = policy._replace(metrics=metrics)
    minimum, maximum = _bounds(loaded, name)
    bounds = Bounds(given["minimum"] or minimum, given["maximum"] or maximum)
    if bounds.minimum > bounds.maximum:
        raise click.UsageError(f"--min: {bounds.minimum} is more than the maximum, {bounds.maximum}")
    return name, policy, bounds


def _bounds(loaded: Sequence[manifests.Manifest], policy: str) -> tuple[int, int]:
    for each in loaded:
        spec = each.content.get("spec")
        if each.kind != "AutoscalingPolicyBinding" or not isinstance(spec, dict):
            continue
        scaling = spec.get("scalingConfiguration")
        if isinstance(scaling, dict) and spec.get("policyRef") == {"name": policy}:
            low, high = scaling.get("minReplicas", 1), scaling.get("maxReplicas", MOST)
            if isinstance(low, int) and isinstance(high, int):
                return max(low, 1), max(high, 1)
    return 1, MOST


def as_text(run: Run) -> str:
    """A summary, and a line for each part of the time."""
    setting, found = run.setting, run.score
    shown = run.windows(ROWS)
    most = max((each.replicas for each in shown), default=1.0) or 1.0
    lines = [
        f"{run.policy} on {run.source}: {len(run.replay.works)} requests, "
        f"{setting.minimum} to {setting.maximum} replicas that start in {setting.cold_start_s:g} s",
        "",
        f"{found.attainment:.2%} of requests are in time: {found.ttft_attainment:.2%} have their first token "
        f"within {setting.slo.ttft_s:g} s, {found.tpot_attainment:.2%} their further ones within "
        f"{setting.slo.tpot_s:g} s each; in the worst minute {found.worst_minute:.0%}.",
        f"{found.replica_hours:.2f} replica hours, {found.starts} starts, "
        f"{found.reversals} change{'' if found.reversals == 1 else 's'} of direction.",
        "",
        f"{'time':>8}  {'req/s':>6}  {'waiting':>7}  {'in time':>7}  replicas",
    ]
    for each in shown:
        bar = "█" * round(30 * each.ready / most) + "░" * round(30 * (each.replicas - each.ready) / most)
        in_time = f"{each.attainment:.1%}" if each.attainment is not None else ""
        lines.append(
            f"{_clock(each.begins_s):>8}  {each.arrivals_per_s:>6.2f}  {each.waiting:>7.1f}  {in_time:>7}  "
            f"{each.replicas:>5.1f} {bar}".rstrip()
        )
    lines += ["", "█ ready, ░ starting or draining"]
    if run.rules:
        rules = ", ".join(f"{name} in {count}" for name, count in sorted(run.rules.items()))
        lines.append(f"Passes in which a rule bounded the decision: {rules}.")
    return "\n".join(lines) + "\n"


def as_json(run: Run) -> str:
    return (
        msgspec.json.format(
            msgspec.json.encode(
                {
                    "policy": run.policy,
                    "trace": run.source,
                    "requests": len(run.replay.works),
                    **{name: round(value, 5) for name, value in run.score._asdict().items()},
                    "rules": dict(run.rules),
                    "windows": [each._asdict() for each in run.windows(10 * ROWS)],
                }
            )
        ).decode()
        + "\n"
    )


def _clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}"
