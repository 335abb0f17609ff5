"""Messages between the API server and the helper process for large writes."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from headgate.api.admission import Filed
from headgate.apiserver import errors
from headgate.apiserver.handlers.changes import Change
from headgate.apiserver.storage import Key
from headgate.helper_process import PackedError

# -- sent by the server


class Setup(msgspec.Struct, frozen=True):
    """Settings that are the same for all writes."""

    trusted: bytes
    """JSON of the definitions whose schemas are known to be cheap."""
    cpu_s: float
    memory_bytes: int
    max_objects: int
    max_bytes: int


class Task(msgspec.Struct, frozen=True):
    """A write to compute."""

    change: Change
    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str
    definition: bytes | None
    """The definition of the kind, if the helper does not have it yet."""
    placeholder: str
    made_name: str
    """The name generated from generateName when this write was computed before."""
    answers: dict[bytes, list[PackedError]]
    """Answers of the judge."""
    objects: int
    object_bytes: int
    events: int


class FoundObject(msgspec.Struct, frozen=True, tag=True):
    revision: int | None
    body: bytes = b""


class FoundKind(msgspec.Struct, frozen=True, tag=True):
    is_served: bool


class FoundEntries(msgspec.Struct, frozen=True, tag=True):
    filed: list[Filed]


class FoundAddress(msgspec.Struct, frozen=True, tag=True):
    spec: dict[str, Any]


class FoundConflict(msgspec.Struct, frozen=True, tag=True):
    why: str | None


# -- sent by the helper


class GetObject(msgspec.Struct, frozen=True, tag=True):
    """An object that the write depends on."""

    key: Key


class GetNeighbour(msgspec.Struct, frozen=True, tag=True):
    """An object that admission reads; the write may be stored even if it changes in the meantime."""

    group: str
    kind: str
    namespace: str
    name: str


class GetKind(msgspec.Struct, frozen=True, tag=True):
    group: str
    kind: str


class GetEntries(msgspec.Struct, frozen=True, tag=True):
    about: str
    value: tuple[str, ...]


class GetAddress(msgspec.Struct, frozen=True, tag=True):
    """The address of the Service with this name, with the fields that determine it."""

    name: str
    spec: dict[str, Any]


class GetConflict(msgspec.Struct, frozen=True, tag=True):
    """Why a definition cannot have its names."""

    group: str
    plural: str
    kind: str


class Refused(msgspec.Struct, frozen=True, tag=True):
    """A StatusError, in either direction."""

    code: int
    reason: str
    message: str
    name: str
    group: str
    kind: str
    causes: list[errors.Cause]
    retry_after_s: int
    has_details: bool

    @classmethod
    def of(cls, error: errors.StatusError) -> Refused:
        causes = list(error.causes[: errors.MAX_CAUSES])
        texts = (error.reason, error.message, error.name, error.group, error.kind)
        return cls(error.code, *texts, causes, error.retry_after_s, error.has_details)

    def error(self) -> errors.StatusError:
        return errors.StatusError(**{name: getattr(self, name) for name in self.__struct_fields__})


class Asked(msgspec.Struct, frozen=True):
    """A question for the judge, without the schema if it is the kind's."""

    what: str
    field: str
    digest: bytes
    is_of_kind: bool
    task: bytes
    key: bytes


class Unanswered(msgspec.Struct, frozen=True, tag=True):
    """The write needs answers from the judge first."""

    questions: list[Asked]
    made_name: str


class Written(msgspec.Struct, frozen=True):
    """One object to store, or to delete with this as its last state."""

    key: Key
    body: bytes
    deletes: bool
    for_deletion: bool


class Made(msgspec.Struct, frozen=True, tag=True):
    """The objects to store, and the response to the write."""

    writes: list[Written]
    shown: bytes | None
    """None if it is the first written object, as stored."""
    warnings: list[str]
    created: bool


Ask: TypeAlias = GetObject | GetNeighbour | GetKind | GetEntries | GetAddress | GetConflict
Sent: TypeAlias = Ask | Refused | Unanswered | Made
Found: TypeAlias = FoundObject | FoundKind | FoundEntries | FoundAddress | FoundConflict | Refused
