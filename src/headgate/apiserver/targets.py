"""The target and the write options of a request: values passed from the HTTP edge to the verbs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headgate.apiserver import errors
from headgate.apiserver.registry import Served
from headgate.apiserver.storage import Key
from headgate.kubeschema.structural import FieldError

FieldValidation = Literal["Ignore", "Warn", "Strict"]


@dataclass(frozen=True)
class Target:
    """One object, or a collection (no name), or a subresource of an object."""

    served: Served
    namespace: str
    name: str
    subresource: str = ""

    @property
    def key(self) -> Key:
        return Key(self.served.resource, self.namespace, self.name)

    def not_found(self) -> errors.StatusError:
        return errors.not_found(self.served.group, self.served.plural, self.name)

    def conflict(self, why: str) -> errors.StatusError:
        return errors.conflict(self.served.group, self.served.plural, self.name, why)

    def forbidden(self, why: str, *causes: errors.Cause) -> errors.StatusError:
        return errors.forbidden(self.served.group, self.served.plural, self.name, why, causes)

    def invalid(self, *found: FieldError) -> errors.StatusError:
        return errors.invalid(self.served.group, self.served.kind, self.name, found)


@dataclass(frozen=True)
class WriteOptions:
    """The query parameters of a write."""

    dry_run: bool = False
    field_manager: str = "unknown"
    field_validation: FieldValidation = "Warn"
    force: bool = False
    through: str = ""
    """The subresource through which the object itself is written (`scale`), for field ownership."""
