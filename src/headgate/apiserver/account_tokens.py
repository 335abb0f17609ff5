"""Tokens of service accounts, as the subresource `token` of a ServiceAccount issues them (TokenRequest).

A token is a JWT with the claims of Kubernetes, signed by HMAC-SHA-256 with a key of this server, which alone
checks it. It is valid for a limited time, as long as its account exists, and its Pod, Secret or Node if it is
bound to one. It has no rights beyond those of every user: there are no Roles here.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from headgate import private_files
from headgate.apiserver import builtin, errors
from headgate.apiserver.storage import Key, Store
from headgate.apiserver.targets import Target
from headgate.apiserver.users import AUDIENCE, User
from headgate.kubeschema import timestamps
from headgate.kubeschema.structural import FieldError

Object = dict[str, Any]

SHORTEST_S: Final = 600
DEFAULT_S: Final = 3600
LONGEST_S: Final = 24 * 3600
"""A request for more gets this."""
_LONGEST_ASKED_S: Final = 1 << 32
_MAX_AUDIENCES: Final = 16
_MAX_AUDIENCE: Final = 256
_MAX_TOKEN: Final = 16_384
"""Characters; one with all audiences has about 8,000."""
_BINDABLE = {"Pod": builtin.POD, "Secret": builtin.SECRET, "Node": "nodes"}
_HEADER: Final = b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"
"""{"alg":"HS256","typ":"JWT"}"""


class BoundObject(msgspec.Struct, frozen=True, rename={"api_version": "apiVersion"}):
    """The object whose end is the end of the token."""

    kind: str = ""
    api_version: str = ""
    name: str = ""
    uid: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    audiences: list[str] = []
    expiration_seconds: int | None = None
    bound_object_ref: BoundObject | None = None


class _Reference(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str = ""
    uid: str = ""
    kind: str = ""


class _Private(msgspec.Struct, frozen=True, omit_defaults=True):
    namespace: str
    serviceaccount: _Reference
    bound: _Reference | None = None


class _Claims(msgspec.Struct, frozen=True, rename={"private": "kubernetes.io"}):
    aud: tuple[str, ...]
    exp: int
    iat: int
    nbf: int
    iss: str
    jti: str
    sub: str
    private: _Private


class AccountTokens:
    """Issues and checks tokens; `now` is a clock in Unix seconds."""

    def __init__(self, state: Path, store: Store, now: Callable[[], float] = time.time) -> None:
        self._path = state / "pki" / "accounts.key"
        self._store = store
        self._now = now
        self._key: bytes | None = self._path.read_bytes() if self._path.exists() else None

    def issue(self, account: Target, request: Object) -> Object:
        """The TokenRequest with a token. Raises StatusError."""
        spec = _read(request, account.name)
        stored = self._store.get(Key(builtin.SERVICE_ACCOUNT, account.namespace, account.name))
        if stored is None:
            raise errors.not_found("", builtin.SERVICE_ACCOUNT, account.name)
        of = _Reference(account.name, str(stored.decode()["metadata"]["uid"]))
        bound = self._bound(spec.bound_object_ref, account.namespace)
        lasts_s = min(spec.expiration_seconds or DEFAULT_S, LONGEST_S)
        audiences = tuple(dict.fromkeys(spec.audiences)) or (AUDIENCE,)
        now = int(self._now())
        claims = _Claims(
            aud=audiences,
            exp=now + lasts_s,
            iat=now,
            nbf=now,
            iss=AUDIENCE,
            jti=secrets.token_hex(16),
            sub=_user_name(account.namespace, account.name),
            private=_Private(account.namespace, of, bound),
        )
        reference = bound and {
            "kind": bound.kind,
            "apiVersion": "v1",
            "name": bound.name,
            "uid": bound.uid,
        }
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": account.name,
                "namespace": account.namespace,
                "creationTimestamp": timestamps.seconds(now),
            },
            "spec": {
                "audiences": list(audiences),
                "expirationSeconds": lasts_s,
                "boundObjectRef": reference,
            },
            "status": {"token": self._signed(claims), "expirationTimestamp": timestamps.seconds(claims.exp)},
        }

    def user(self, token: str) -> User | None:
        """The account of a valid token, for whichever audiences."""
        claims = self._claims(token)
        if claims is None or not claims.nbf <= self._now() < claims.exp:
            return None
        where, of, bound = claims.private.namespace, claims.private.serviceaccount, claims.private.bound
        if self._uid(builtin.SERVICE_ACCOUNT, where, of.name) != of.uid:
            return None
        if bound is not None and self._uid(_BINDABLE[bound.kind], where, bound.name) != bound.uid:
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{where}")
        return User(claims.sub, None, groups, uid=of.uid, audiences=claims.aud)

    def _bound(self, to: BoundObject | None, namespace: str) -> _Reference | None:
        if to is None:
            return None
        uid = self._uid(_BINDABLE[to.kind], namespace, to.name)
        if uid is None:
            raise errors.not_found("", _BINDABLE[to.kind], to.name)
        if to.uid and to.uid != uid:
            why = f"the UID in the bound object reference ({to.uid}) does not match the UID in record ({uid})"
            raise errors.conflict("", _BINDABLE[to.kind], to.name, why)
        return _Reference(to.name, uid, to.kind)

    def _uid(self, resource: str, namespace: str, name: str) -> str | None:
        where = "" if resource == "nodes" else namespace
        stored = self._store.get(Key(resource, where, name))
        return None if stored is None else str(stored.decode()["metadata"]["uid"])

    def _signed(self, claims: _Claims) -> str:
        if self._key is None:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            key = secrets.token_bytes(32)
            self._store.write_file(lambda: private_files.write(self._path, key))
            self._key = key
        signed = _HEADER + b"." + _base64(msgspec.json.encode(claims))
        return (signed + b"." + _signature(self._key, signed)).decode()

    def _claims(self, token: str) -> _Claims | None:
        """Those of a token with a valid signature."""
        if self._key is None or len(token) > _MAX_TOKEN or not token.isascii():
            return None
        signed, _, signature = token.encode().rpartition(b".")
        header, _, payload = signed.partition(b".")
        if header != _HEADER or not hmac.compare_digest(_signature(self._key, signed), signature):
            return None
        return msgspec.json.decode(
            base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)), type=_Claims
        )


def _read(request: Object, name: str) -> _Spec:
    """The spec of a valid request. Raises StatusError with all errors."""
    metadata = request.get("metadata") or {}
    if (said := metadata.get("name")) not in (None, "", name):
        detail = "must match the service account name if specified"
        raise _invalid(name, FieldError("FieldValueInvalid", "metadata.name", detail, said))
    try:
        spec = msgspec.convert(request.get("spec") or {}, _Spec)
    except msgspec.ValidationError as error:
        raise errors.bad_request(f"TokenRequest: {error}") from error
    if found := list(_mistakes(spec)):
        raise _invalid("", *found)
    return spec


def _invalid(name: str, *found: FieldError) -> errors.StatusError:
    return errors.invalid("authentication.k8s.io", "TokenRequest", name, found)


def _mistakes(spec: _Spec) -> list[FieldError]:
    found = []
    lasts_s = spec.expiration_seconds
    if lasts_s is not None and lasts_s < SHORTEST_S:
        detail = "may not specify a duration less than 10 minutes"
        found.append(FieldError("FieldValueInvalid", "spec.expirationSeconds", detail, lasts_s))
    elif lasts_s is not None and lasts_s > _LONGEST_ASKED_S:
        detail = "may not specify a duration larger than 2^32 seconds"
        found.append(FieldError("FieldValueInvalid", "spec.expirationSeconds", detail, lasts_s))
    if len(spec.audiences) > _MAX_AUDIENCES or any(len(each) > _MAX_AUDIENCE for each in spec.audiences):
        detail = f"may have {_MAX_AUDIENCES} items of {_MAX_AUDIENCE} characters"
        found.append(FieldError("FieldValueInvalid", "spec.audiences", detail, len(spec.audiences)))
    bound = spec.bound_object_ref
    if bound is not None and (bound.kind not in _BINDABLE or bound.api_version not in ("", "v1")):
        detail = f"must be a v1 {', '.join(_BINDABLE)}"
        found.append(FieldError("FieldValueInvalid", "spec.boundObjectRef.kind", detail, bound.kind))
    if bound is not None and not bound.name:
        found.append(FieldError("FieldValueRequired", "spec.boundObjectRef.name", "", ""))
    return found


def _user_name(namespace: str, name: str) -> str:
    return f"system:serviceaccount:{namespace}:{name}"


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _signature(key: bytes, signed: bytes) -> bytes:
    return _base64(hmac.digest(key, signed, hashlib.sha256))
