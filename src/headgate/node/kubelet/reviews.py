"""Asks the API server who a token belongs to, and what a caller may do; remembers its answers for a while."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from headgate import cluster
from headgate.node.kubelet.callers import Caller, Right

TOKEN_S = 120.0
ALLOWED_S = 300.0
DENIED_S = 30.0
"""How long answers are remembered, as by a kubelet. That a token is unknown is not remembered."""
MAX_ENTRIES = 1024
MAX_TOKEN_BYTES = 8192
_AT_ONCE = 8
_REVIEW_S = 10.0
T = TypeVar("T")


class ReviewError(Exception):
    """The API server did not answer."""


class Remembered(Generic[T]):
    """A bounded number of values, each until its time; `now` is in seconds."""

    def __init__(self, entries: int = MAX_ENTRIES) -> None:
        self._most = entries
        self._values: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()

    def get(self, key: Hashable, now: float) -> T | None:
        until, value = self._values.get(key, (now, None))
        return value if until > now else None

    def put(self, key: Hashable, value: T, until: float) -> None:
        self._values[key] = (until, value)
        self._values.move_to_end(key)
        if len(self._values) > self._most:
            self._values.popitem(last=False)


class Reviews:
    """Reviews for one node."""

    def __init__(self, client: cluster.Client, node: str) -> None:
        self._client = client
        self._node = node
        self._tokens: Remembered[Caller] = Remembered()
        self._decisions: Remembered[bool] = Remembered()
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def caller(self, token: str) -> Caller | None:
        """The user of a token; None if it is not valid. Raises ReviewError."""
        if not token or len(token) > MAX_TOKEN_BYTES:
            return None
        key = hashlib.sha256(token.encode()).digest()
        known = self._tokens.get(key, time.monotonic())
        if known is not None:
            return known
        status = await self._review("authentication.k8s.io/v1", "TokenReview", {"token": token})
        if status.get("authenticated") is not True:
            return None
        try:
            user = msgspec.convert(status.get("user"), _User)
        except msgspec.ValidationError as error:
            raise ReviewError(f"the user of a TokenReview cannot be read: {error}") from error
        found = Caller(user.username, tuple(user.groups), user.uid, user.extra)
        self._tokens.put(key, found, time.monotonic() + TOKEN_S)
        return found

    async def allows(self, caller: Caller, right: Right) -> bool:
        """Whether a caller has a right on this node. Raises ReviewError."""
        for each in right.subresources:
            if await self._allows(caller, right.verb, each):
                return True
        return False

    async def _allows(self, caller: Caller, verb: str, subresource: str) -> bool:
        extra = {name: list(values) for name, values in caller.extra.items()}
        spec = {
            "user": caller.name,
            "groups": list(caller.groups),
            "uid": caller.uid,
            "extra": extra,
            "resourceAttributes": {
                "verb": verb,
                "version": "v1",
                "resource": "nodes",
                "subresource": subresource,
                "name": self._node,
            },
        }
        key = hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).digest()
        known = self._decisions.get(key, time.monotonic())
        if known is not None:
            return known
        status = await self._review("authorization.k8s.io/v1", "SubjectAccessReview", spec)
        allowed = status.get("allowed") is True
        self._decisions.put(key, allowed, time.monotonic() + (ALLOWED_S if allowed else DENIED_S))
        return allowed

    async def _review(self, version: str, kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        path = f"/apis/{version}/{kind.lower()}s"
        review = {"apiVersion": version, "kind": kind, "spec": dict(spec)}
        try:
            async with asyncio.timeout(_REVIEW_S), self._turn:
                answer = await self._client.ask("POST", path, review)
            status = msgspec.json.decode(answer.body, type=_Reviewed).status
        except (cluster.ApiError, TimeoutError, msgspec.MsgspecError) as error:
            raise ReviewError(f"the API server did not answer a {kind}: {error or 'timeout'}") from error
        return status


class _Reviewed(msgspec.Struct, frozen=True):
    status: dict[str, Any]


class _User(msgspec.Struct, frozen=True):
    username: str
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)
