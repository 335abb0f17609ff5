"""Print the last decision about a binding, and what it was made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from headgate import api, cluster
from headgate.api.kthena_registry import (
    AutoscalingPolicyBindingStatus,
    AutoscalingPolicyStablePolicy,
    ScalingConfiguration,
)
from headgate.autoscaling import History
from headgate.cli.objects import printing

_NAME = 14
"""Width of the names in the lines."""


async def explain(client: cluster.Client, namespace: str | None, name: str, output: str) -> None:
    """Print it as text or JSON. Raises ClickException if there is no such binding."""
    try:
        binding = await client.get(api.AutoscalingPolicyBinding, name, namespace)
    except cluster.NotFound:
        where = namespace or client.namespace
        told = f"there is no AutoscalingPolicyBinding {where}/{name}; headgate get aspb -A lists all"
        raise click.ClickException(told) from None
    policy_key = binding.metadata.namespace, binding.spec.policy_ref.name
    try:
        policy = await client.get(api.AutoscalingPolicy, policy_key[1], policy_key[0])
    except cluster.NotFound:
        policy = None
    if output == "json":
        click.echo(printing.as_json(as_json(binding, policy)), nl=False)
        return
    for line in as_text(binding, policy):
        click.echo(printing.escaped(line))


def as_json(binding: api.AutoscalingPolicyBinding, policy: api.AutoscalingPolicy | None) -> dict[str, Any]:
    """The status without the history, and what bounds it."""
    status = binding.status or AutoscalingPolicyBindingStatus()
    shown = msgspec.to_builtins(msgspec.structs.replace(status, history=""))
    return {
        "namespace": binding.metadata.namespace,
        "name": binding.metadata.name,
        "policy": binding.spec.policy_ref.name,
        "bounds": [
            {"minReplicas": each.min_replicas, "maxReplicas": each.max_replicas}
            for each in _configurations(binding)
        ],
        "policySpec": _complete(policy.spec) if policy is not None else None,
        "expectedStartSeconds": _start_s(status),
        **shown,
    }


def _complete(value: Any) -> Any:
    """With the fields that have their defaults, which are in effect as well."""
    if isinstance(value, msgspec.Struct):
        fields = {each.encode_name: getattr(value, each.name) for each in msgspec.structs.fields(value)}
        return {name: _complete(field) for name, field in fields.items() if field is not None}
    return [_complete(each) for each in value] if isinstance(value, list) else value


def as_text(binding: api.AutoscalingPolicyBinding, policy: api.AutoscalingPolicy | None) -> Iterator[str]:
    status = binding.status
    name = binding.metadata.key
    if status is None:
        yield f"{name}: nothing was decided yet; is a headgate controller running?"
        return
    ready = next((each for each in status.conditions if each.type == "Ready"), None)
    if ready is not None and ready.status != "True":
        yield f"{name} does not scale ({ready.reason}): {ready.message}"
    else:
        yield f"{name}: {status.message}"
        if ready is not None and ready.reason == "StartFailed":
            yield f"{ready.message}."
    if status.observed_generation not in (None, binding.metadata.generation):
        yield "The binding has changed since."
    yield ""
    if status.targets:
        yield from _targets(binding, status)
        yield ""
    if status.metrics:
        yield from _table(
            ("METRIC", "VALUE", "TARGET", "REPLICAS"),
            [
                (
                    f"{each.metric_name}{' *' if each.metric_name == status.metric_name else ''}",
                    each.value or "missing",
                    each.target_value,
                    "-" if each.desired_replicas is None else str(each.desired_replicas),
                )
                for each in status.metrics
            ],
        )
        yield ""
    measured = next((each for each in status.conditions if each.type == "MetricsAvailable"), None)
    if measured is not None and measured.status == "False":
        yield measured.message
        yield ""
    yield from _rules(status, policy)


def _targets(binding: api.AutoscalingPolicyBinding, status: AutoscalingPolicyBindingStatus) -> Iterator[str]:
    """The table of the workloads, with their costs if these decide."""
    optimizer = binding.spec.optimizer_configuration
    costs = [str(each.cost) for each in optimizer.params] if optimizer is not None else []
    rows = [
        (
            f"{each.kind} {each.namespace}/{each.name}",
            str(each.current_replicas),
            str(each.ready_replicas),
            str(each.desired_replicas),
            str(bounds.min_replicas),
            str(bounds.max_replicas),
            *costs[index : index + 1],
        )
        for index, (each, bounds) in enumerate(zip(status.targets, _configurations(binding), strict=False))
    ]
    head = ("TARGET", "CURRENT", "READY", "DESIRED", "MIN", "MAX", *(["COST"] if costs else []))
    yield from _table(head, rows)


def _rules(status: AutoscalingPolicyBindingStatus, policy: api.AutoscalingPolicy | None) -> Iterator[str]:
    recommended = status.recommended_replicas
    yield _line("Recommended", "nothing" if recommended is None else str(recommended))
    held = f", until {status.held_until} at the earliest" if status.held_until else ""
    yield _line("Bounded by", f"{status.rule or 'nothing'}{held}")
    until = f" until {status.panic_until}" if status.panic_until else ""
    yield _line("Mode", f"{status.mode or 'Stable'}{until}")
    yield _line("Last change", status.last_scale_time or "never")
    start_s = _start_s(status)
    if start_s is not None:
        yield _line("Start", f"a new replica is ready after about {start_s:g} s")
    if policy is None:
        return
    behavior = policy.spec.behavior
    yield _line("Tolerance", f"{policy.spec.tolerance_percent} % of the replicas")
    yield _line("Scale up", _rate(behavior.scale_up.stable_policy, "0s"))
    panic = behavior.scale_up.panic_policy
    if panic is not None:
        yield _line(
            "Panic",
            f"from {panic.panic_threshold_percent} % of the replicas on: {panic.percent} % in"
            f" {panic.period}, for {panic.panic_mode_hold}",
        )
    yield _line("Scale down", _rate(behavior.scale_down, "5m"))


def _rate(policy: AutoscalingPolicyStablePolicy, window: str) -> str:
    which = "the smaller" if policy.select_policy == "And" else "the larger"
    waits = policy.stabilization_window or window
    counted = f"{policy.instances} replica{'' if policy.instances == 1 else 's'}"
    return (
        f"{counted} or {policy.percent} % in {policy.period}, {which}; "
        f"after {waits} of the same recommendation"
    )


def _configurations(binding: api.AutoscalingPolicyBinding) -> Sequence[ScalingConfiguration]:
    spec = binding.spec
    if spec.optimizer_configuration is not None:
        return spec.optimizer_configuration.params
    return [spec.scaling_configuration] if spec.scaling_configuration is not None else []


def _start_s(status: AutoscalingPolicyBindingStatus) -> float | None:
    try:
        return History.from_json(status.history).expected_start_s if status.history else None
    except ValueError:
        return None


def _line(name: str, text: str) -> str:
    return f"{name + ':':<{_NAME}}{text}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    lines = [head, *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(head))]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
