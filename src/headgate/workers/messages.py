"""What a supervisor and its workers tell each other. An upgrade may put different versions at the two ends:
fields may be added with a default, and neither end minds those that it does not know.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from headgate.flow.limits import Claim, Grant
from headgate.flow.sharing import PoolReport, PoolShare
from headgate.gateway import old_settings
from headgate.gateway.settings import GatewaySettings
from headgate.telemetry.sums import Family

# -- to a worker


class Begin(msgspec.Struct, tag=True, frozen=True):
    """The first message: who the worker is, and by which settings (as `written`) it serves."""

    worker: int
    workers: int
    settings: dict[str, Any]
    listeners: list[int] = []
    """Descriptors of all listening sockets, which the worker has from its start."""
    keeps_accounts: bool = False
    """Whether the supervisor answers Claims."""
    shares_queues: bool = False
    """Whether it answers Waiting."""


class Serve(msgspec.Struct, tag=True, frozen=True):
    """Accept on these listening sockets, and on no others."""

    listeners: list[int]


class Change(msgspec.Struct, tag=True, frozen=True):
    """Go on with these settings."""

    settings: dict[str, Any]


class Leave(msgspec.Struct, tag=True, frozen=True):
    """Say that you are not ready, and end connections with their next answer; serve whatever comes."""


class Retire(msgspec.Struct, tag=True, frozen=True):
    """Another serves in your place: end once your connections have ended, or after so many seconds."""

    limit_s: float


class Drain(msgspec.Struct, tag=True, frozen=True):
    """Close what is idle, and end once your requests have ended, or after so many seconds."""

    limit_s: float


class Ask(msgspec.Struct, tag=True, frozen=True):
    """A request to the worker's debug pages."""

    id: int
    method: str
    path: str
    """As the client wrote it, with its escapes."""
    query: str
    body: bytes = b""
    headers: list[tuple[str, str]] = []


class Count(msgspec.Struct, tag=True, frozen=True):
    """Tell your metrics."""

    id: int


class Quiesce(msgspec.Struct, tag=True, frozen=True):
    """The supervisor is about to be replaced: answer with Hushed, then say nothing until the next order."""


class Grants(msgspec.Struct, tag=True, frozen=True):
    """The answer to Claims, in their order."""

    id: int
    grants: list[Grant]


class Shares(msgspec.Struct, tag=True, frozen=True):
    """What the worker may do of what is set for the queues of all workers, by pools; some time after Waiting
    of any of them."""

    pools: dict[str, PoolShare]


# -- from a worker


class Ready(msgspec.Struct, tag=True, frozen=True):
    """Requests can be routed."""


class Failed(msgspec.Struct, tag=True, frozen=True):
    """The worker cannot start, for a reason that a person can mend."""

    message: str


class Leaving(msgspec.Struct, tag=True, frozen=True):
    """Somebody told the worker to end; it serves until another does in its place."""


class Answered(msgspec.Struct, tag=True, frozen=True):
    """The answer to Ask."""

    id: int
    status: int
    content_type: str
    body: bytes


class Counted(msgspec.Struct, tag=True, frozen=True):
    """The answer to Count; without being asked now and then and at the end, with id 0."""

    id: int
    families: list[Family]


class Hushed(msgspec.Struct, tag=True, frozen=True):
    """The answer to Quiesce."""


class Claims(msgspec.Struct, tag=True, frozen=True):
    """Of accounts by their names, which all workers of a gateway share, if its supervisor keeps them."""

    id: int
    claims: list[tuple[str, Claim]]


class Waiting(msgspec.Struct, tag=True, frozen=True):
    """What waits at the worker, by pools, of those where that has changed; and pools that are gone."""

    pools: dict[str, PoolReport]
    gone: list[str] = []


Order: TypeAlias = Begin | Serve | Change | Leave | Retire | Drain | Ask | Count | Quiesce | Grants | Shares
Report: TypeAlias = Ready | Failed | Leaving | Answered | Counted | Hushed | Claims | Waiting


def written(settings: GatewaySettings) -> dict[str, Any]:
    """Settings as any version reads them."""
    values: dict[str, Any] = msgspec.to_builtins(settings.by_path())
    return old_settings.with_old_names(values)


def known(settings: dict[str, Any]) -> GatewaySettings:
    """The settings that this version knows, of those that any version wrote."""
    nested: dict[str, dict[str, Any]] = {}
    for path, value in old_settings.from_any_version(settings).items():
        section, _, name = path.partition(".")
        nested.setdefault(section, {})[name] = value
    return msgspec.convert(nested, GatewaySettings)
