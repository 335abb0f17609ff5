"""The system description: accelerators, models, classes, servers and capacity in one JSON document.

Names and units are those of inferno, the optimizer of llm-d's workload-variant autoscaler. Three fields are
Headgate's own: `slo-percentile` of a target, `demand` and `maxNumReplicas` of a server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, field

from headgate.kubeschema import schema, structural
from headgate.kubeschema.structural import FieldError
from headgate.planning.problem import MAX_REPLICAS
from headgate.planning.replica import MAX_BATCH

__all__ = [
    "DEFAULT_CLASS",
    "DEFAULT_PRIORITY",
    "PLENTY",
    "Accelerator",
    "AllocationData",
    "Load",
    "Optimizer",
    "Performance",
    "Server",
    "ServiceClass",
    "System",
    "SystemErrors",
    "Target",
    "read",
]

DEFAULT_CLASS: Final = "Free"
DEFAULT_PRIORITY: Final = 100
PLENTY: Final = 10_000_000
"""Accelerators of a type that has no limit while others have one."""
_MOST: Final = 10_000
"""Entries of a list."""
_CANDIDATES: Final = 200_000
"""Servers times the accelerators that have a profile of their model."""
_NUMBER: Final = 1e12

Amount: TypeAlias = Annotated[float, Meta(ge=0, le=_NUMBER)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_REPLICAS)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=253)]


class SystemErrors(ValueError):  # noqa: N818 - reads as what it says
    """Everything that is wrong with a description; a line for each, with its field and value."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(error.message() for error in self.errors))


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pass


class Power(_Part, frozen=True, kw_only=True):
    """Watts at utilizations of 0, `mid_util` and 1; reported only."""

    idle: Amount = 0.0
    full: Amount = 0.0
    mid_power: Amount = 0.0
    mid_util: Annotated[float, Meta(ge=0, le=1)] = 0.0


class Accelerator(_Part, frozen=True, kw_only=True):
    name: Name
    type: str = ""
    """Capacity is counted by type; empty: its name."""
    multiplicity: Annotated[int, Meta(ge=0, le=1024)] = 1
    """Devices of this type that make one accelerator."""
    mem_size: Amount = 0.0
    mem_bw: Amount = field(default=0.0, name="memBW")
    power: Power = Power()
    cost: Amount = 0.0
    """Cents per hour."""

    @property
    def kind(self) -> str:
        return self.type or self.name


class DecodeParms(_Part, frozen=True, kw_only=True):
    alpha: Amount
    beta: Amount


class PrefillParms(_Part, frozen=True, kw_only=True):
    gamma: Amount
    delta: Amount


class Performance(_Part, frozen=True, kw_only=True):
    """A model on an accelerator."""

    name: Name
    acc: Name
    acc_count: Annotated[int, Meta(ge=-1024, le=1024)] = 1
    max_batch_size: Annotated[int, Meta(ge=0, le=MAX_BATCH)] = 0
    at_tokens: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    """Length of a response for which `max_batch_size` holds; 0: for any."""
    decode_parms: DecodeParms
    prefill_parms: PrefillParms

    @property
    def count(self) -> int:
        return max(self.acc_count, 1)


class Target(_Part, frozen=True, kw_only=True):
    model: Name
    itl: Amount = field(default=0.0, name="slo-itl")
    ttft: Amount = field(default=0.0, name="slo-ttft")
    tps: Amount = field(default=0.0, name="slo-tps")
    percentile: Annotated[float, Meta(ge=1, le=99.99)] | None = field(default=None, name="slo-percentile")


class ServiceClass(_Part, frozen=True, kw_only=True):
    name: Name
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] = DEFAULT_PRIORITY
    model_targets: Annotated[list[Target], Meta(max_length=_MOST)] = []

    @property
    def rank(self) -> int:
        """From 1, the most important, to 100; numbers out of this range count as 100."""
        return self.priority if 1 <= self.priority <= DEFAULT_PRIORITY else DEFAULT_PRIORITY


class Load(_Part, frozen=True, kw_only=True):
    arrival_rate: Amount = 0.0
    """Requests per minute."""
    avg_in_tokens: Amount = 0.0
    in_tokens_spread: Amount = 0.0
    """Variance of the tokens of prompts, as a multiple of the square of their mean."""
    avg_out_tokens: Amount = 0.0


class AllocationData(_Part, frozen=True, kw_only=True):
    """What a server runs on, and what its requests experience; times in milliseconds."""

    accelerator: str = ""
    num_replicas: Count = 0
    max_batch: Annotated[int, Meta(ge=0, le=MAX_BATCH)] = 0
    cost: Amount = 0.0
    itl_average: Amount = 0.0
    ttft_average: Amount = 0.0
    load: Load = Load()


class Server(_Part, frozen=True, kw_only=True):
    name: Name
    class_: str = field(default="", name="class")
    model: Name
    keep_accelerator: bool = False
    min_num_replicas: Count = 0
    max_num_replicas: Annotated[int, Meta(ge=0, le=MAX_REPLICAS)] = 0
    """0: no limit. Headgate's own."""
    max_batch_size: Annotated[int, Meta(ge=0, le=MAX_BATCH)] = 0
    demand: str = ""
    """Servers of one model and class with the same name here share their load. Headgate's own."""
    current_alloc: AllocationData = AllocationData()
    desired_alloc: AllocationData = AllocationData()

    @property
    def service_class(self) -> str:
        return self.class_ or DEFAULT_CLASS


class Optimizer(_Part, frozen=True, kw_only=True):
    unlimited: bool = False
    delayed_best_effort: bool = False
    saturation_policy: Literal["None", "PriorityExhaustive", "PriorityRoundRobin", "RoundRobin"] = "None"


class Capacity(_Part, frozen=True, kw_only=True):
    type: Name
    count: Annotated[int, Meta(ge=0, le=PLENTY)] = 0


class _Accelerators(_Part, frozen=True, kw_only=True):
    accelerators: Annotated[list[Accelerator], Meta(max_length=_MOST)] = []


class _Models(_Part, frozen=True, kw_only=True):
    models: Annotated[list[Performance], Meta(max_length=_MOST)] = []


class _Classes(_Part, frozen=True, kw_only=True):
    service_classes: Annotated[list[ServiceClass], Meta(max_length=_MOST)] = []


class _Servers(_Part, frozen=True, kw_only=True):
    servers: Annotated[list[Server], Meta(max_length=_MOST)] = []


class _Optimizers(_Part, frozen=True, kw_only=True):
    optimizer: Optimizer = Optimizer()


class _Capacities(_Part, frozen=True, kw_only=True):
    count: Annotated[list[Capacity], Meta(max_length=_MOST)] = []


class _Sections(_Part, frozen=True, kw_only=True):
    accelerator_data: _Accelerators = _Accelerators()
    model_data: _Models = _Models()
    service_class_data: _Classes = _Classes()
    server_data: _Servers = _Servers()
    optimizer_data: _Optimizers = _Optimizers()
    capacity_data: _Capacities = _Capacities()


class _Document(_Part, frozen=True, kw_only=True):
    system: _Sections


class System(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is made for. Names are unique."""

    accelerators: dict[str, Accelerator]
    performance: dict[tuple[str, str], Performance]
    """By model and accelerator."""
    classes: dict[str, ServiceClass]
    servers: dict[str, Server]
    optimizer: Optimizer = Optimizer()
    capacity: dict[str, int] = {}
    own_performance: dict[str, Performance] = {}
    """By server, for those that have another profile than others of their model on the same accelerator."""

    def profile(self, server: Server, accelerator: str) -> Performance | None:
        own = self.own_performance.get(server.name)
        if own is not None and own.acc == accelerator:
            return own
        return self.performance.get((server.model, accelerator))

    def target(self, server: Server) -> Target | None:
        own = self.classes.get(server.service_class)
        targets = own.model_targets if own is not None else []
        return next((each for each in targets if each.model == server.model), None)

    def priority(self, server: Server) -> int:
        own = self.classes.get(server.service_class)
        return own.rank if own is not None else DEFAULT_PRIORITY


def read(data: bytes) -> System:
    """Read a document; raises SystemErrors with everything that is wrong."""
    try:
        document = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise SystemErrors([FieldError("FieldValueInvalid", "<document>", f"is not JSON: {error}")]) from None
    except RecursionError:
        raise SystemErrors([FieldError("FieldValueInvalid", "<document>", "is nested too deeply")]) from None
    sections = _validated(document)
    system = System(
        accelerators={each.name: each for each in sections.accelerator_data.accelerators},
        performance={(each.name, each.acc): each for each in sections.model_data.models},
        classes={each.name: each for each in sections.service_class_data.service_classes},
        servers={each.name: each for each in sections.server_data.servers},
        optimizer=sections.optimizer_data.optimizer,
        capacity={each.type: each.count for each in sections.capacity_data.count},
    )
    if errors := [*_repeated(sections), *_at_odds(sections)]:
        raise SystemErrors(errors)
    return system


def _validated(document: Any) -> _Sections:
    if not isinstance(document, dict):
        raise SystemErrors(
            [
                FieldError(
                    "FieldValueTypeInvalid", "<document>", "must be an object with the field system", document
                )
            ]
        )
    wanted = schema.structural(_Document)
    unknown = [
        FieldError("FieldValueInvalid", path, "unknown field") for path in structural.prune(wanted, document)
    ]
    structural.default(wanted, document)
    if errors := [*unknown, *structural.validate(wanted, document)]:
        raise SystemErrors(errors)
    return msgspec.convert(document, _Document).system


def _repeated(sections: _Sections) -> Iterator[FieldError]:
    """Names that occur twice."""
    lists: list[tuple[str, list[Any]]] = [
        ("acceleratorData.accelerators", [each.name for each in sections.accelerator_data.accelerators]),
        ("modelData.models", [f"{each.name} on {each.acc}" for each in sections.model_data.models]),
        (
            "serviceClassData.serviceClasses",
            [each.name for each in sections.service_class_data.service_classes],
        ),
        ("serverData.servers", [each.name for each in sections.server_data.servers]),
        ("capacityData.count", [each.type for each in sections.capacity_data.count]),
    ]
    for index, each in enumerate(sections.service_class_data.service_classes):
        path = f"serviceClassData.serviceClasses[{index}].modelTargets"
        lists.append((path, [target.model for target in each.model_targets]))
    for path, names in lists:
        seen: set[str] = set()
        for index, name in enumerate(names):
            if name in seen:
                yield FieldError("FieldValueDuplicate", f"system.{path}[{index}]", "", name)
            seen.add(name)


def _at_odds(sections: _Sections) -> Iterator[FieldError]:
    """Values that contradict each other."""
    first: dict[str, Server] = {}
    profiles = Counter(each.name for each in sections.model_data.models)
    together = sum(profiles[server.model] for server in sections.server_data.servers)
    if together > _CANDIDATES:
        detail = f"they have {together} candidates together; at most {_CANDIDATES} are planned"
        yield FieldError("FieldValueTooMany", "system.serverData.servers", detail)
    for index, server in enumerate(sections.server_data.servers):
        path = f"system.serverData.servers[{index}]"
        if 0 < server.max_num_replicas < server.min_num_replicas:
            detail = f"is less than minNumReplicas, {server.min_num_replicas}"
            yield FieldError("FieldValueInvalid", f"{path}.maxNumReplicas", detail, server.max_num_replicas)
        if not server.demand:
            continue
        other = first.setdefault(server.demand, server)
        if (other.model, other.service_class) != (server.model, server.service_class):
            detail = f"server {other.name} of this demand has another model or class"
            yield FieldError("FieldValueInvalid", f"{path}.demand", detail, server.demand)
