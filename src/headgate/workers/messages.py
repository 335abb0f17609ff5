"""The messages between a supervisor and its workers. During an upgrade, the two ends may have different
versions: new fields need a default, and both ends ignore unknown fields."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from headgate.api.stored_object import StoredObject
from headgate.flow.limits import Claim, Grant
from headgate.flow.sharing import PoolReport, PoolShare
from headgate.gateway import old_settings
from headgate.gateway.settings import GatewaySettings
from headgate.telemetry.sums import Family

# -- to a worker


class Begin(msgspec.Struct, tag=True, frozen=True):
    """The first message: the worker's number, and its settings (as `written`)."""

    worker: int
    workers: int
    settings: dict[str, Any]
    listeners: list[int] = []
    """Descriptors of all listening sockets, which the worker inherits."""
    keeps_accounts: bool = False
    """Whether the supervisor responds to Claims."""
    shares_queues: bool = False
    """Whether the supervisor responds to Waiting."""
    hears_starved: bool = False
    """Whether the supervisor understands Starved."""
    has_objects: bool = False
    """Whether the supervisor sends Objects, and none come from an API server."""


class Serve(msgspec.Struct, tag=True, frozen=True):
    """Accept on these listening sockets, and on no others."""

    listeners: list[int]


class Change(msgspec.Struct, tag=True, frozen=True):
    """Apply these settings."""

    settings: dict[str, Any]


class Leave(msgspec.Struct, tag=True, frozen=True):
    """Report not ready, and close each connection after its next response; keep serving until then."""


class Retire(msgspec.Struct, tag=True, frozen=True):
    """Another worker has replaced you: end once your connections have ended, or after this many seconds."""

    limit_s: float


class Drain(msgspec.Struct, tag=True, frozen=True):
    """Close idle connections, and end once your requests have ended, or after this many seconds."""

    limit_s: float


class Ask(msgspec.Struct, tag=True, frozen=True):
    """A request to the worker's debug pages."""

    id: int
    method: str
    path: str
    """As the client wrote it, including escapes."""
    query: str
    body: bytes = b""
    headers: list[tuple[str, str]] = []


class Count(msgspec.Struct, tag=True, frozen=True):
    """Report your metrics."""

    id: int


class Quiesce(msgspec.Struct, tag=True, frozen=True):
    """The supervisor is about to be replaced: respond with Hushed, then send nothing until the next order."""


class Grants(msgspec.Struct, tag=True, frozen=True):
    """The response to Claims, in their order."""

    id: int
    grants: list[Grant]


class Shares(msgspec.Struct, tag=True, frozen=True):
    """This worker's shares of the queues' limits, by pool; sent some time after any worker's Waiting."""

    pools: dict[str, PoolShare]


class Objects(msgspec.Struct, tag=True, frozen=True):
    """All objects of a gateway without an API server."""

    objects: list[StoredObject]


# -- from a worker


class Ready(msgspec.Struct, tag=True, frozen=True):
    """The worker can route requests."""


class Failed(msgspec.Struct, tag=True, frozen=True):
    """The worker cannot start, for a reason that an operator can fix."""

    message: str


class Leaving(msgspec.Struct, tag=True, frozen=True):
    """The worker received SIGTERM; it serves until it is replaced."""


class Answered(msgspec.Struct, tag=True, frozen=True):
    """The response to Ask."""

    id: int
    status: int
    content_type: str
    body: bytes


class Counted(msgspec.Struct, tag=True, frozen=True):
    """The response to Count; also sent unasked, with id 0, from time to time and at the end."""

    id: int
    families: list[Family]


class Hushed(msgspec.Struct, tag=True, frozen=True):
    """The response to Quiesce."""


class Claims(msgspec.Struct, tag=True, frozen=True):
    """Claims on accounts by name. All workers of a gateway share them, if its supervisor keeps them."""

    id: int
    claims: list[tuple[str, Claim]]


class Waiting(msgspec.Struct, tag=True, frozen=True):
    """Queued requests of the worker, for pools where this has changed; and pools that are gone."""

    pools: dict[str, PoolReport]
    gone: list[str] = []


class Starved(msgspec.Struct, tag=True, frozen=True):
    """Requests of the worker begin to wait for a pool that has no endpoint: those who follow its signals are
    to know at once."""


Order: TypeAlias = (
    Begin | Serve | Change | Leave | Retire | Drain | Ask | Count | Quiesce | Grants | Shares | Objects
)
Report: TypeAlias = Ready | Failed | Leaving | Answered | Counted | Hushed | Claims | Waiting | Starved


def written(settings: GatewaySettings) -> dict[str, Any]:
    """Settings in a form that any version can read."""
    values: dict[str, Any] = msgspec.to_builtins(settings.by_path())
    return old_settings.with_old_names(values)


def known(settings: dict[str, Any]) -> GatewaySettings:
    """The settings that this version knows, of those written by any version."""
    nested: dict[str, dict[str, Any]] = {}
    for path, value in old_settings.from_any_version(settings).items():
        section, _, name = path.partition(".")
        nested.setdefault(section, {})[name] = value
    return msgspec.convert(nested, GatewaySettings)
