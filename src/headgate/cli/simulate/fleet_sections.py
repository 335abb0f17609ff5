"""The fleet file as a person writes it, and the simulated fleet it describes."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, get_type_hints

import msgspec

from headgate.cli.simulate import sizes
from headgate.cli.simulate.start_sections import SECONDS, ColdStartSection, QueueSection
from headgate.fleet import EjectionPolicy, RetryBudgetPolicy
from headgate.simulator.fleet import EngineGroup, FleetDescription
from headgate.simulator.fleet.cold_start import keeps_requests
from headgate.simulator.fleet.description import Role, store_problems
from headgate.simulator.model import DEFAULT_PROFILE, PROFILES, EngineConfig, Fault, FaultSchedule, StepCosts
from headgate.traffic.traces import TimedRequest

MAX_ENDPOINTS = 1000
_MAX_TOKENS = 1 << 40
_NAMES_SHOWN = 4


class SloSection(msgspec.Struct, frozen=True, kw_only=True):
    """Objectives that a request must meet to count as good."""

    ttft: Annotated[float, SECONDS] = 2.0
    tpot: Annotated[float, SECONDS] | None = None


class GroupSection(msgspec.Struct, frozen=True, kw_only=True):
    """Equal replicas of one engine."""

    name: str = "engine"
    replicas: Annotated[int, msgspec.Meta(ge=1, le=MAX_ENDPOINTS)] = 1
    profile: str = DEFAULT_PROFILE
    engine: dict[str, int | float | bool] = {}
    """Constants that override the profile's, by name."""
    cache_tokens: Annotated[int, msgspec.Meta(ge=1, le=_MAX_TOKENS)] | None = None
    """Size of the KV cache, instead of `kv_blocks`."""
    role: Role = "both"
    """With prefill and decode on separate engines: the side that these serve."""
    labels: dict[str, str] = {}
    cold_start: ColdStartSection | None = None
    """How these engines start, and when they run; without it, all of them run all the time."""


class EjectionSection(msgspec.Struct, frozen=True, kw_only=True):
    """When the gateway ejects endpoints, and for how long."""

    failures: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 5
    """Consecutive failures that eject an endpoint; 0 disables ejection."""
    base: Annotated[float, SECONDS] = 5.0
    """Duration of the first ejection; it doubles if the endpoint soon fails again."""
    longest: Annotated[float, SECONDS] = 300.0
    slow_start: Annotated[float, SECONDS] = 10.0
    hang: Annotated[float, SECONDS] = 30.0
    hang_requests: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 3
    """Requests waiting longer than `hang`, with no token from the endpoint, that also eject it."""


class RetryBudgetSection(msgspec.Struct, frozen=True, kw_only=True):
    """Limits the total number of retries by the gateway."""

    share: Annotated[float, msgspec.Meta(ge=0, le=100)] = 0.2
    floor_per_s: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 3.0
    window: Annotated[float, msgspec.Meta(gt=0, le=1e6, extra={"duration": True})] = 30.0


class FleetFile(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet file: the engines, the gateway in front of them, and the objectives."""

    groups: list[GroupSection]
    policy: str | None = None
    """Comma-separated names; used if the command line names no policy."""
    slo: SloSection = SloSection()
    scrape: Annotated[float, SECONDS] = 1.0
    """How often the gateway reads the engines' metrics; 0 for never."""
    max_requests: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Concurrent requests per endpoint; if every endpoint is full, requests are rejected."""
    retries: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    """Retries of a request whose endpoint failed before its first token."""
    retry_budget: RetryBudgetSection = RetryBudgetSection()
    ejection: EjectionSection = EjectionSection()
    queue: QueueSection | None = None
    """How the gateway queues requests; without it, all are sent immediately."""
    faults: list[Fault] = []
    """Engine faults and their times."""
    link_bytes_per_s: Annotated[float, msgspec.Meta(ge=1)] = 40e9
    """Bandwidth of the link that carries KV caches from prefill to decode engines."""
    link_latency_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    remote_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Prompts with fewer uncached tokens than this are prefilled on the decode engine."""


class Problem(NamedTuple):
    """An invalid field of a file."""

    path: str
    message: str
    word: str = ""
    choices: Sequence[str] = ()
    """Valid values in place of `word`."""


class Settled(NamedTuple):
    """A fleet that can run, unless there are problems."""

    fleet: FleetDescription | None
    notes: list[str]
    """Values that the file leaves open and that were chosen to fit the trace."""
    problems: list[Problem]


def settle(file: FleetFile, requests: Sequence[TimedRequest]) -> Settled:
    """The fleet for these requests, or all errors in its description.

    Unless set otherwise, KV blocks are as large as the trace's, in a cache of the profile's size, and the
    context fits the longest request if the cache does.
    """
    groups: list[EngineGroup] = []
    notes: dict[str, list[str]] = {}
    problems = [*_of_all_groups(file), *_of_faults(file), *_of_ejection(file.ejection)]
    for number, group in enumerate(file.groups):
        path = f"groups[{number}]"
        found = [*_of_group(group, path), *_of_cold_start(group, path, file.queue)]
        problems += found
        if found:
            continue
        try:
            constants, fitted = _fitted(group, requests)
            config = _config(group.profile, constants)
        except (msgspec.ValidationError, sizes.SizeError) as error:
            problems.append(Problem(f"{path}.engine", str(error)))
            continue
        for note in fitted:
            notes.setdefault(note, []).append(group.name)
        groups.append(
            EngineGroup(
                name=group.name,
                engine=config,
                count=group.replicas,
                role=group.role,
                labels=group.labels,
                cold_start=group.cold_start.settings() if group.cold_start is not None else None,
            )
        )
    problems += [Problem("groups", message) for message in store_problems(groups)]
    if problems:
        return Settled(None, [], problems)
    fleet = FleetDescription(
        groups=tuple(groups),
        scrape_s=file.scrape,
        max_requests=file.max_requests or sys.maxsize,
        retries=file.retries,
        retry_budget=RetryBudgetPolicy(
            share=file.retry_budget.share,
            floor_per_s=file.retry_budget.floor_per_s,
            window_s=file.retry_budget.window,
        ),
        ejection=_ejection_policy(file.ejection),
        faults=FaultSchedule(faults=tuple(file.faults)),
        link_bytes_per_s=file.link_bytes_per_s,
        link_latency_s=file.link_latency_s,
        remote_tokens=file.remote_tokens,
        flow=file.queue.settings() if file.queue is not None else None,
    )
    told = [
        note if len(names) == len(groups) else f"{', '.join(names)}: {note}" for note, names in notes.items()
    ]
    return Settled(fleet, told, [])


def constants() -> dict[str, type]:
    """The constants of an engine by name, each with its type."""
    known = get_type_hints(StepCosts) | get_type_hints(EngineConfig)
    for name in ("costs", "kv_events"):
        del known[name]
    return known


def _of_all_groups(file: FleetFile) -> list[Problem]:
    problems = []
    seen: set[str] = set()
    for number, group in enumerate(file.groups):
        if group.name in seen:
            problems.append(Problem(f"groups[{number}].name", f"another group is also named {group.name}"))
        seen.add(group.name)
    if not file.groups:
        problems.append(Problem("groups", "a fleet needs at least one group"))
    if file.groups and all(group.role == "prefill" for group in file.groups):
        problems.append(Problem("groups", "engines that only prefill need others that decode"))
    if sum(group.replicas for group in file.groups) > MAX_ENDPOINTS:
        problems.append(Problem("groups", f"there are more than {MAX_ENDPOINTS} replicas in total"))
    return problems


def _of_ejection(ejection: EjectionSection) -> list[Problem]:
    if ejection.longest >= ejection.base:
        return []
    return [Problem("ejection.longest", f"must be at least base, which is {ejection.base:g} s")]


def _ejection_policy(section: EjectionSection) -> EjectionPolicy:
    return EjectionPolicy(
        failures=section.failures,
        base_s=section.base,
        longest_s=section.longest,
        slow_start_s=section.slow_start,
        hang_s=section.hang,
        hang_requests=section.hang_requests,
    )


def _of_faults(file: FleetFile) -> list[Problem]:
    names = [f"{group.name}-{replica}" for group in file.groups for replica in range(group.replicas)]
    problems = []
    for number, fault in enumerate(file.faults):
        path = f"faults[{number}]"
        for problem in fault.problems():
            field, _, message = problem.partition(": ")
            problems.append(Problem(f"{path}.{field}", message))
        if not fnmatch.filter(names, fault.engines):
            few = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
            message = f"no endpoint is named {fault.engines!r}: there are {few}"
            problems.append(Problem(f"{path}.engines", message))
    return problems


def _of_group(group: GroupSection, path: str) -> list[Problem]:
    problems = []
    if group.profile not in PROFILES:
        message = f"{group.profile!r} is not a profile"
        problems.append(Problem(f"{path}.profile", message, group.profile, tuple(PROFILES)))
    known = constants() | dict.fromkeys(sizes.IN_BLOCKS, float)
    for name, value in group.engine.items():
        if name not in known:
            message = f"{name!r} is not a constant of an engine"
            problems.append(Problem(f"{path}.engine.{name}", message, name, tuple(known)))
        elif (wanted := _wanted(value, known[name])) is not None:
            problems.append(Problem(f"{path}.engine.{name}", f"{value!r} is not {wanted}"))
    for name, blocks in sizes.said_twice(group.engine):
        problems.append(Problem(f"{path}.engine.{name}", f"the size is also set by {blocks}"))
    if group.cache_tokens is not None and (said := {"kv_blocks", "kv_bytes"} & group.engine.keys()):
        message = f"the size of the cache is also set by {said.pop()}"
        problems.append(Problem(f"{path}.cache_tokens", message))
    return problems


def _of_cold_start(group: GroupSection, path: str, queue: QueueSection | None) -> list[Problem]:
    if group.cold_start is None:
        return []
    path = f"{path}.cold_start"
    problems = [
        Problem(f"{path}.{field.removesuffix('_s')}" if field else path, message)
        for field, message in group.cold_start.settings().problems(group.replicas, group.role)
    ]
    if not keeps_requests(None if queue is None else queue.settings()):
        message = "engines start when requests are queued; give the fleet a `queue` with a no_endpoint_ttl"
        problems.append(Problem(path, message))
    return problems


def _wanted(value: float | bool, kind: type) -> str | None:
    """A description of the expected value; None if the value is valid."""
    if kind is bool:
        return None if isinstance(value, bool) else "true or false"
    if isinstance(value, bool) or (kind is int and not isinstance(value, int)):
        return "a whole number" if kind is int else "a number"
    return None


def _fitted(group: GroupSection, requests: Sequence[TimedRequest]) -> tuple[dict[str, Any], list[str]]:
    """The group's constants, and notes on sizes chosen to fit the trace. Raises SizeError."""
    config = PROFILES[group.profile].config
    given: dict[str, Any] = dict(group.engine)
    notes = []
    trace_block = max((request.block_tokens for request in requests), default=0)
    if "block_size" not in given and trace_block not in (0, config.block_size):
        given["block_size"] = trace_block
        notes.append(f"KV blocks have {trace_block} tokens, like those of the trace")
    block_size = int(given.get("block_size", config.block_size))
    token_bytes = int(given.get("kv_bytes_per_token", config.kv_bytes_per_token))
    if block_size > 0 and token_bytes > 0:
        given = sizes.in_blocks(given, block_size, token_bytes)
    if "kv_blocks" not in given and block_size > 0:
        tokens = group.cache_tokens or config.kv_blocks * config.block_size
        given["kv_blocks"] = tokens // block_size
    longest = max((request.prompt_tokens + request.output_tokens for request in requests), default=0)
    if "max_model_len" not in given and longest > config.max_model_len:
        adapters = given.get("max_adapters", config.max_adapters) * given.get(
            "adapter_kv_blocks", config.adapter_kv_blocks
        )
        room = int(given["kv_blocks"] - adapters) * block_size
        given["max_model_len"] = max(config.max_model_len, min(longest, room))
        notes.append(
            f"the context (max_model_len) is {given['max_model_len']:,} tokens instead of the profile's "
            f"{config.max_model_len:,}: the longest request has {longest:,}"
        )
    return given, notes


def _config(profile: str, constants: dict[str, Any]) -> EngineConfig:
    """Raises msgspec.ValidationError, with the engine's own message."""
    raw = msgspec.to_builtins(PROFILES[profile].config)
    for name, value in constants.items():
        (raw["costs"] if name in raw["costs"] else raw)[name] = value
    return msgspec.convert(raw, EngineConfig)
