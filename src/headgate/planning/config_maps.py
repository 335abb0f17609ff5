"""The ConfigMaps of planning: costs of accelerators, service classes, settings, and scaling to zero.

Names and formats are those of llm-d's workload-variant autoscaler. It stops a pass at some broken keys;
here, each of them is a ConfigProblem that concerns the objects that use the key, and all others stay in
effect.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from headgate.planning import config_values as values
from headgate.planning.config_values import ConfigProblem, Key
from headgate.planning.settings_map import PERIOD_S, PrometheusSettings, read_settings
from headgate.planning.system import DEFAULT_PRIORITY, Accelerator, ServiceClass, Target

__all__ = [
    "CLASSES",
    "COSTS",
    "LIMITS",
    "MAIN",
    "NAMESPACE",
    "RETENTION_S",
    "SCALE_TO_ZERO",
    "ClassKey",
    "ClassReader",
    "ConfigProblem",
    "Configuration",
    "Place",
    "ScaleToZero",
    "promql_range",
    "read",
]

NAMESPACE: Final = "workload-variant-autoscaler-system"
COSTS: Final = "accelerator-unit-costs"
CLASSES: Final = "service-classes-config"
MAIN: Final = "workload-variant-autoscaler-variantautoscaling-config"
SCALE_TO_ZERO: Final = "model-scale-to-zero-config"
LIMITS: Final = "accelerator-limits"
"""Its keys are accelerators or devices, its values whole numbers; see `limits`."""

RETENTION_S: Final = 600.0
_MOST_OF_OTHERS: Final = 128 * 1024
"""Characters of a ConfigMap with service classes, unless it is that of all: any tenant may have some."""
_LONG_RETENTION_S: Final = 24 * 3600.0
_DEFAULTS: Final = "__defaults__"
_OF_MODEL: Final = "model."
UNNAMED: Final = _OF_MODEL
_CLASS_EXAMPLE: Final = "{name: Premium, priority: 1, data: [{model: m, slo-tpot: 24, slo-ttft: 500}]}"
_ZERO_EXAMPLE: Final = "{modelID: m, enableScaleToZero: true, retentionPeriod: 10m}"
_CLASS_FIELDS: Final = frozenset({"name", "priority", "data", "slo-percentile"})
_TARGET_FIELDS: Final = frozenset({"model", "slo-tpot", "slo-ttft", "slo-percentile"})
_ZERO_FIELDS: Final = frozenset({"modelID", "enableScaleToZero", "retentionPeriod"})
_MEANT: Final = {"slo-itl": "slo-tpot", "slo-ttw": "slo-ttft"}


Place: TypeAlias = tuple[str, str]
"""Namespace and name of a ConfigMap."""


class ScaleToZero(NamedTuple):
    """Whether a model may have no replicas, and how long after its last request."""

    is_enabled: bool
    retention_s: float


class _Zero(NamedTuple):
    """What one key says; None: nothing."""

    is_enabled: bool | None = None
    retention_s: float | None = None


class ClassKey(NamedTuple):
    """One key of a ConfigMap."""

    namespace: str
    config_map: str
    key: str

    @property
    def place(self) -> str:
        return f"{self.namespace}/{self.config_map}"


class Configuration(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything that could be read, and what could not."""

    accelerators: Mapping[str, Accelerator]
    """By the name that VariantAutoscalings have."""
    classes: Mapping[ClassKey, ServiceClass]
    period_s: float = PERIOD_S
    prometheus: PrometheusSettings | None = None
    """None: no server is configured."""
    is_limited: bool = False
    """Whether there are no more accelerators than Nodes have."""
    problems: tuple[ConfigProblem, ...] = ()
    default_zero: ScaleToZero = ScaleToZero(False, RETENTION_S)
    zero: Mapping[str, ScaleToZero] = {}
    """By model, where it is not the default."""
    namespace: str = NAMESPACE
    """Of the ConfigMaps."""

    def scale_to_zero_of(self, model: str) -> ScaleToZero:
        return self.zero.get(model, self.default_zero)

    def problems_of(self, place: ClassKey) -> list[ConfigProblem]:
        """Those of one key of a ConfigMap, or of the ConfigMap as a whole."""
        found = self.problems_by_key.get(place.place, {})
        return [each for key in dict.fromkeys(("", place.key)) for each in found.get(key, ())]

    @cached_property
    def problems_by_key(self) -> Mapping[str, Mapping[str, Sequence[ConfigProblem]]]:
        """By ConfigMap, with its namespace, and key: each of a thousand variants asks for a few."""
        found: dict[str, dict[str, list[ConfigProblem]]] = {}
        for each in self.problems:
            found.setdefault(each.config_map, {}).setdefault(each.key, []).append(each)
        return found

    @cached_property
    def problems_of_zero(self) -> Mapping[str, Sequence[ConfigProblem]]:
        """Those of scaling to zero, by model; "" for those that concern all, and `UNNAMED` for those of a key
        that has no model, but may be meant for any."""
        found: dict[str, list[ConfigProblem]] = {}
        for key, own in self.problems_by_key.get(f"{self.namespace}/{SCALE_TO_ZERO}", {}).items():
            for each in own:
                common = UNNAMED if key.startswith(_OF_MODEL) else ""
                found.setdefault(each.model or common, []).append(each)
        return found

    @cached_property
    def common_classes(self) -> Mapping[str, ClassKey]:
        """The most important class of the ConfigMap of all that has targets for a model, by model."""
        common = sorted(
            (found.rank, key)
            for key, found in self.classes.items()
            if (key.namespace, key.config_map) == (self.namespace, CLASSES)
        )
        return {
            target.model: key for _, key in reversed(common) for target in self.classes[key].model_targets
        }


def read(
    costs: Mapping[str, str] | None,
    classes: Mapping[str, str] | None,
    main: Mapping[str, str] | None,
    scale_to_zero: Mapping[str, str] | None,
    *,
    namespace: str = NAMESPACE,
    other_classes: Mapping[Place, Mapping[str, str]] | None = None,
    environment: Mapping[str, str] | None = None,
    reader: ClassReader | None = None,
) -> Configuration:
    """Read the `data` of the ConfigMaps; None for one that does not exist. A `reader` knows what it has read.

    `other_classes` are ConfigMaps with service classes that VariantAutoscalings refer to, by namespace and
    name. Values of `environment` come before those of `main` with the same name. Nothing in the content is
    an error: see `problems`.
    """
    problems: list[ConfigProblem] = []
    accelerators = _accelerators(f"{namespace}/{COSTS}", costs, problems)
    found = (reader or ClassReader()).read((namespace, CLASSES), classes, other_classes or {}, problems)
    settings = read_settings(f"{namespace}/{MAIN}", main or {}, environment or {}, problems)
    default, zero = _scale_to_zero(
        f"{namespace}/{SCALE_TO_ZERO}", scale_to_zero or {}, settings.may_scale_to_zero, problems
    )
    return Configuration(
        accelerators=accelerators,
        classes=found,
        period_s=settings.period_s,
        prometheus=settings.prometheus,
        is_limited=settings.is_limited,
        problems=tuple(problems),
        default_zero=default,
        zero=zero,
        namespace=namespace,
    )


def promql_range(seconds: float) -> str:
    """A time as a range of PromQL, in the largest unit without a rest: 90m, 2h, 45s."""
    milliseconds = max(1, math.ceil(seconds * 1000 - 1e-6))
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def _missing(config_map: str, fix: str, problems: list[ConfigProblem]) -> None:
    problems.append(ConfigProblem(config_map=config_map, told="does not exist", fix=fix))


def _accelerators(
    config_map: str, data: Mapping[str, str] | None, problems: list[ConfigProblem]
) -> dict[str, Accelerator]:
    if data is None:
        _missing(config_map, "create it with a key for each accelerator", problems)
    found = {name: _accelerator(name, text, Key(config_map, name, problems)) for name, text in _sorted(data)}
    return {name: one for name, one in found.items() if one is not None}


def _accelerator(name: str, text: str, key: Key) -> Accelerator | None:
    value = values.json_object(text, key)
    if value is None:
        return None
    told = "is not text with a number of cents per hour"
    device, cost = value.get("device", ""), value.get("cost")
    number = values.decimal(cost) if isinstance(cost, str) else None
    if number is None:
        fix = f'write "cost": "{cost}"' if values.is_number(cost) else 'write it as in "cost": "40.00"'
        if cost is None:
            key.report("is missing", fix, field="cost")
        else:
            key.report(told, fix, field="cost", value=cost)
        return None
    if not isinstance(device, str) or len(device) > 253:
        key.report(
            "is not the name of a device",
            'write it as in "device": "NVIDIA-L40S"',
            field="device",
            value=device,
        )
        device = ""
    return Accelerator(name=name, type=device, cost=number)


class _Classes(NamedTuple):
    """What is in one ConfigMap."""

    data: Mapping[str, str] | None
    found: Mapping[str, ServiceClass]
    problems: Sequence[ConfigProblem]


class ClassReader:
    """Reads ConfigMaps with service classes, and again only those that have changed: YAML takes long, and
    each tenant may have some."""

    def __init__(self) -> None:
        self._known: dict[Place, _Classes] = {}

    def read(
        self,
        common: Place,
        classes: Mapping[str, str] | None,
        others: Mapping[Place, Mapping[str, str]],
        problems: list[ConfigProblem],
    ) -> dict[ClassKey, ServiceClass]:
        """The classes of the ConfigMap of all, and of others. Adds what is wrong with them to `problems`."""
        maps: dict[Place, Mapping[str, str] | None] = {common: classes, **others}
        self._known = {
            place: self._one(place, data, is_common=place == common) for place, data in maps.items()
        }
        for each in self._known.values():
            problems += each.problems
        return {
            ClassKey(*place, key): one
            for place, each in self._known.items()
            for key, one in each.found.items()
        }

    def _one(self, place: Place, data: Mapping[str, str] | None, *, is_common: bool) -> _Classes:
        known = self._known.get(place)
        if known is not None and known.data == data:
            return known
        problems: list[ConfigProblem] = []
        config_map = "/".join(place)
        if (
            not is_common
            and sum(len(key) + len(text) for key, text in (data or {}).items()) > _MOST_OF_OTHERS
        ):
            told = f"has more than {_MOST_OF_OTHERS} characters"
            problems.append(
                ConfigProblem(config_map=config_map, told=told, fix="split it into several ConfigMaps")
            )
            return _Classes(data, {}, problems)
        return _Classes(data, _classes(config_map, data, problems), problems)


def _classes(
    config_map: str, data: Mapping[str, str] | None, problems: list[ConfigProblem]
) -> dict[str, ServiceClass]:
    if data is None:
        _missing(config_map, "create it with a key for each service class", problems)
    found = {name: _class(text, Key(config_map, name, problems)) for name, text in _sorted(data)}
    return {name: one for name, one in found.items() if one is not None}


def _class(text: str, key: Key) -> ServiceClass | None:
    value = values.yaml_mapping(text, key, _CLASS_EXAMPLE)
    if value is None:
        return None
    _report_unknown(value, _CLASS_FIELDS, "", key)
    name = value.get("name", "")
    if not isinstance(name, str) or not name or len(name) > 253:
        name = key.key.removesuffix(".yaml").removesuffix(".yml")
        if "name" in value:
            key.report(
                f"is no name; the class is called {name}", "write text", field="name", value=value["name"]
            )
    targets = value.get("data") or []
    if not isinstance(targets, list):
        key.report("is not a list of targets", f"write {_CLASS_EXAMPLE}", field="data", value=targets)
        targets = []
    percentile = _percentile(value, "slo-percentile", key)
    return ServiceClass(
        name=name, priority=_priority(value, key), model_targets=_targets(targets, percentile, key)
    )


def _priority(value: Mapping[Any, Any], key: Key) -> int:
    """Numbers out of range count as the last one, as in the reference."""
    priority = value.get("priority", DEFAULT_PRIORITY)
    if not isinstance(priority, int) or isinstance(priority, bool):
        told = f"is not a whole number; {DEFAULT_PRIORITY}, the least important, is used"
        key.report(told, "write one from 1 to 100", field="priority", value=priority, is_warning=True)
        return DEFAULT_PRIORITY
    if not 1 <= priority <= DEFAULT_PRIORITY:
        told = f"is not from 1 to {DEFAULT_PRIORITY}; {DEFAULT_PRIORITY}, the least important, is used"
        key.report(told, "1 is the most important", field="priority", value=priority, is_warning=True)
        return DEFAULT_PRIORITY
    return priority


def _targets(listed: Sequence[Any], percentile: float | None, key: Key) -> list[Target]:
    found: dict[str, Target] = {}
    for index, each in enumerate(listed):
        path = f"data[{index}]"
        model = each.get("model") if isinstance(each, dict) else None
        if not isinstance(model, str) or not 0 < len(model) <= 253:
            fix = "write the modelID of a VariantAutoscaling, in quotes if it looks like a number"
            key.report("has no model", fix, field=path, value=each)
        elif model in found:
            told = "occurs twice; its first targets are used"
            key.of_model(model).report(
                told, "remove one", field=f"{path}.model", value=model, is_warning=True
            )
        elif (target := _target(model, each, path, percentile, key.of_model(model))) is not None:
            found[model] = target
    return list(found.values())


def _target(
    model: str, value: Mapping[Any, Any], path: str, percentile: float | None, key: Key
) -> Target | None:
    _report_unknown(value, _TARGET_FIELDS, f"{path}.", key)
    numbers: dict[str, float] = {}
    for name in ("slo-tpot", "slo-ttft"):
        number = value.get(name, 0)
        if not values.is_number(number) or not 0 <= number <= 1e9:
            told = "is not a number of milliseconds; the model has no targets in this class"
            fix = "write it without quotes" if _is_quoted_number(number) else "write it as in 500"
            key.report(told, fix, field=f"{path}.{name}", value=number)
            return None
        numbers[name] = float(number)
    own = _percentile(value, f"{path}.slo-percentile", key)
    return Target(
        model=model,
        itl=numbers["slo-tpot"],
        ttft=numbers["slo-ttft"],
        percentile=percentile if own is None else own,
    )


def _is_quoted_number(value: object) -> bool:
    return isinstance(value, str) and values.decimal(value) is not None


def _percentile(value: Mapping[Any, Any], field: str, key: Key) -> float | None:
    number = value.get("slo-percentile")
    if number is None:
        return None
    if not values.is_number(number) or not 1 <= number <= 99.99:
        told = "is not a percentage from 1 to 99.99; the default is used"
        key.report(told, "write it as in 95", field=field, value=number, is_warning=True)
        return None
    return float(number)


def _report_unknown(value: Mapping[Any, Any], known: frozenset[str], path: str, key: Key) -> None:
    for name in value:
        if name not in known:
            meant = _MEANT.get(name) if isinstance(name, str) else None
            fix = f"write {meant}" if meant else f"known fields are {', '.join(sorted(known))}"
            key.report(
                "is not a known field, and is ignored", fix, field=f"{path}{name}"[:200], is_warning=True
            )


def _scale_to_zero(
    config_map: str, data: Mapping[str, str], is_enabled: bool, problems: list[ConfigProblem]
) -> tuple[ScaleToZero, dict[str, ScaleToZero]]:
    """The default, and models by their own keys; of two keys for a model, the first in order counts."""
    default = _Zero()
    if _DEFAULTS in data:
        default = _zero(data[_DEFAULTS], Key(config_map, _DEFAULTS, problems))[1]
    common = ScaleToZero(
        is_enabled if default.is_enabled is None else default.is_enabled,
        RETENTION_S if default.retention_s is None else default.retention_s,
    )
    found: dict[str, ScaleToZero] = {}
    for name, text in _sorted(data):
        if name == _DEFAULTS:
            continue
        key = Key(config_map, name, problems)
        if not name.startswith(_OF_MODEL):
            key.report("is ignored", f"call it {_OF_MODEL}{name} or {_DEFAULTS}", is_warning=True)
            continue
        model, own = _zero(text, key, is_of_model=True)
        if model in found:
            told = "has another key, which is used"
            key.of_model(model).report(told, "remove one", field="modelID", value=model, is_warning=True)
        elif model:
            found[model] = ScaleToZero(
                common.is_enabled if own.is_enabled is None else own.is_enabled,
                common.retention_s if own.retention_s is None else own.retention_s,
            )
    return common, found


def _zero(text: str, key: Key, *, is_of_model: bool = False) -> tuple[str, _Zero]:
    """The model of a key, "" if it has none, and its settings."""
    value = values.yaml_mapping(text, key, _ZERO_EXAMPLE)
    if value is None:
        return "", _Zero()
    model = value.get("modelID", "")
    if is_of_model and (not isinstance(model, str) or not model):
        key.report("is not the name of a model", f"write {_ZERO_EXAMPLE}", field="modelID", value=model)
        return "", _Zero()
    key = key.of_model(model) if is_of_model else key
    _report_unknown(value, _ZERO_FIELDS, "", key)
    is_enabled = value.get("enableScaleToZero")
    if is_enabled is not None and not isinstance(is_enabled, bool):
        told = "is neither true nor false; the default is used"
        key.report(told, "write one of them without quotes", field="enableScaleToZero", value=is_enabled)
        is_enabled = None
    return str(model), _Zero(is_enabled, _retention_s(value.get("retentionPeriod"), key))


def _retention_s(text: object, key: Key) -> float | None:
    if text is None or text == "":
        return None
    seconds = values.duration_s(text) if isinstance(text, str) else None
    if seconds is None:
        told = "is not a duration above 0; the default is used"
        key.report(told, "write it as in 1h30m", field="retentionPeriod", value=text)
    elif seconds > _LONG_RETENTION_S:
        told = "is longer than a day: replicas stay that long without a request"
        key.report(told, "check the unit", field="retentionPeriod", value=text, is_warning=True)
    return seconds


def _sorted(data: Mapping[str, str] | None) -> list[tuple[str, str]]:
    return sorted((data or {}).items())
