"""Filters by the labels of Pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import msgspec

from headgate.api import marks
from headgate.routing import DECODES, PREFILLS
from headgate.scheduling.plugins.plugin import Cycle, Filter, Loads


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """One expression of a Kubernetes label selector."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.operator in ("In", "NotIn") and not self.values:
            raise ValueError(f"{self.operator} needs values")
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            raise ValueError(f"{self.operator} takes no values")

    def fits(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
        return value is None


class SelectorParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


class LabelSelectorFilter(Filter):
    """Keeps endpoints whose Pod matches a Kubernetes label selector."""

    kind = "label-selector-filter"
    Parameters = SelectorParameters

    def __init__(self, parameters: SelectorParameters | None = None) -> None:
        super().__init__()
        said = parameters or SelectorParameters()
        self._labels = said.match_labels.items()
        self._expressions = said.match_expressions

    def keep(self, cycle: Cycle, loads: Loads) -> Loads:
        return [load for load in loads if self._fits(load.labels)]

    def _fits(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self._labels) and all(
            each.fits(labels) for each in self._expressions
        )


class ByLabelParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    label: str
    valid_values: tuple[str, ...] = ()
    allows_no_label: bool = False


class ByLabelFilter(Filter):
    """Keeps endpoints whose label has one of the values; those without it only with `allowsNoLabel`."""

    kind = "by-label"
    Parameters = ByLabelParameters

    def __init__(self, parameters: ByLabelParameters) -> None:
        super().__init__()
        self._said = parameters

    def keep(self, cycle: Cycle, loads: Loads) -> Loads:
        label, values, allows_none = self._said.label, self._said.valid_values, self._said.allows_no_label
        return [
            load for load in loads if (load.labels[label] in values if label in load.labels else allows_none)
        ]


class _RoleFilter(Filter):
    """Keeps endpoints whose `llm-d.ai/role` is one of the roles."""

    roles: ClassVar[frozenset[str]]
    takes_unlabelled: ClassVar[bool] = False

    def keep(self, cycle: Cycle, loads: Loads) -> Loads:
        roles, takes_unlabelled = self.roles, self.takes_unlabelled
        return [
            load
            for load in loads
            if ((role := load.labels.get(marks.ROLE)) in roles or (role is None and takes_unlabelled))
        ]


class PrefillFilter(_RoleFilter):
    """Keeps endpoints that can prefill, by their label `llm-d.ai/role`."""

    kind = "prefill-filter"
    roles = PREFILLS


class DecodeFilter(_RoleFilter):
    """Keeps endpoints that can decode, by their label `llm-d.ai/role`, and those without it."""

    kind = "decode-filter"
    roles = DECODES
    takes_unlabelled = True


class EncodeFilter(_RoleFilter):
    """Keeps endpoints that can encode media, by their label `llm-d.ai/role`."""

    kind = "encode-filter"
    roles = frozenset({"encode", "encode-prefill", "encode-prefill-decode"})
