"""Plan a replay from the command line: everything is checked before anything runs."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from headgate.cli.simulate import fleet_file, policies, traffic
from headgate.cli.simulate.fleet_sections import FleetFile, Settled
from headgate.cli.simulate.policies import Compared
from headgate.cli.simulate.strict import SettingErrors
from headgate.cli.simulate.traffic import Traffic
from headgate.simulator.fleet import FleetDescription, Slo
from headgate.simulator.model import DEFAULT_PROFILE
from headgate.traffic import traces

Read = TypeVar("Read")

_REPLICAS = 8


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of the command line."""

    file: str | None
    format: str
    block_tokens: int
    workload: str | None
    parameters: Sequence[str]
    fleet: str | None
    replicas: int | None
    profile: str | None
    constants: Sequence[str]
    policy: str | None
    policy_config: Sequence[str]
    limit: int | None
    duration: float | None
    curve: str | None
    closed_loop: bool
    rate_scale: float | None
    rate: float | None
    rates: list[float]
    find_rate: bool
    attain: float
    jitter: str
    seed: int
    slo_ttft: float | None
    slo_tpot: float | None
    output: str
    plots: Path | None
    compare: bool


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a replay needs."""

    options: Options
    traffic: Traffic
    file: FleetFile
    """The fleet as described."""
    fleet: FleetDescription
    notes: list[str]
    """Values chosen by default, and options without effect."""
    policies: list[Compared]
    slo: Slo
    arrivals: list[traces.Arrivals]
    """One for each rate."""


def plan(options: Options) -> Plan:
    """Make the plan; raises click's exceptions for invalid options or files."""
    _check(options)
    used = _traffic(options)
    file, settled = _fleet(options, used)
    assert settled.fleet is not None
    compared, ineffective = _policies(options, file)
    base = traces.Arrivals(
        jitter_s=traffic.jitter_s(options.jitter, used.grid_s),
        rate_scale=options.rate_scale or 1.0,
        rate_per_s=options.rate,
    )
    return Plan(
        options=options,
        traffic=used,
        file=file,
        fleet=settled.fleet,
        notes=[*settled.notes, *ineffective],
        policies=compared,
        slo=_slo(options, file),
        arrivals=[msgspec.structs.replace(base, rate_per_s=rate) for rate in options.rates] or [base],
    )


def _check(options: Options) -> None:
    """Reject options that contradict each other."""
    if (options.file is None) == (options.workload is None):
        raise click.UsageError(
            "nothing to replay: name a trace file or a --workload"
            if options.file is None
            else "a trace file and --workload cannot be combined"
        )
    if options.workload is None and options.parameters:
        raise click.UsageError("--set is for parameters of a --workload; a trace file has none")
    alone = {"--replicas": options.replicas, "--profile": options.profile, "--engine": options.constants}
    if options.fleet is not None and (given := [flag for flag, value in alone.items() if value]):
        raise click.UsageError(f"{', '.join(given)}: already set by the file of --fleet; change it there")
    paces = {
        "--rate": options.rate,
        "--rates": options.rates,
        "--rate-scale": options.rate_scale,
        "--find-rate": options.find_rate,
    }
    if len(given := [flag for flag, value in paces.items() if value]) > 1:
        raise click.UsageError(f"{' and '.join(given)} cannot be combined")


def _traffic(options: Options) -> Traffic:
    chosen = traces.Arrivals(limit=options.limit, duration_s=options.duration)
    if options.workload is not None:
        used = traffic.of_workload(
            options.workload, traffic.parameters(options.parameters), chosen, options.seed
        )
    else:
        assert options.file is not None
        used = traffic.of_file(options.file, options.format, options.block_tokens, chosen)
    if options.closed_loop:
        used = msgspec.structs.replace(used, requests=traces.in_turn(used.requests))
    return used if options.curve is None else traffic.along(used, options.curve)


def _fleet(options: Options, used: Traffic) -> tuple[FleetFile, Settled]:
    if options.fleet is None:
        constants = fleet_file.parse_constants(options.constants)
        replicas, profile = options.replicas or _REPLICAS, options.profile or DEFAULT_PROFILE
        return fleet_file.from_flags(replicas, profile, constants, used.requests)
    file = options.fleet
    return _read(lambda: fleet_file.from_file(file, used.requests))


def _slo(options: Options, description: FleetFile) -> Slo:
    tpot_s = description.slo.tpot if options.slo_tpot is None else options.slo_tpot
    return Slo(
        ttft_s=description.slo.ttft if options.slo_ttft is None else options.slo_ttft,
        tpot_s=math.inf if tpot_s is None else tpot_s,
    )


def _policies(options: Options, file: FleetFile) -> tuple[list[Compared], list[str]]:
    """The policies of the command line, else of the fleet file, else the default."""
    configured, notes = _read(lambda: policies.by_files(options.policy_config))
    text = options.policy or ("" if configured else file.policy or policies.DEFAULT)
    return (policies.by_names(text) if text else []) + configured, notes


def _read(read: Callable[[], Read]) -> Read:
    """Read a file; exits with all errors in it."""
    try:
        return read()
    except SettingErrors as errors:
        click.echo(errors.shown(), err=True)
        sys.exit(1)
