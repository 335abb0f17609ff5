"""All keys and tenants at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hmac import compare_digest

from headgate.api.tenants import Tenant
from headgate.auth.keys import Key
from headgate.auth.outcome import EXPIRED, TENANTS_UNKNOWN, UNKNOWN, Denial, Identity, unknown_tenant
from headgate.auth.patterns import Names
from headgate.auth.tenant import Grant

DEFAULT = "default"
"""The tenant whose definition applies to all tenants that are not defined. They share its limits, and each
has a flow of its own."""

KEY = "key "
"""Begins how the holder of a key was authenticated; its id follows."""


class Directory:
    """Immutable. `tenants` are by name; without any, every tenant may do everything. While they are not
    known, none may do anything."""

    def __init__(
        self,
        keys: Iterable[Key] = (),
        tenants: Mapping[str, Tenant] | None = None,
        *,
        are_tenants_known: bool = True,
    ) -> None:
        self.tenants = dict(tenants or {})
        self._are_tenants_known = are_tenants_known
        self._grants = {name: Grant(name, tenant) for name, tenant in self.tenants.items()}
        self._subjects = [
            (name, Names(tenant.spec.subjects))
            for name, tenant in self.tenants.items()
            if tenant.spec.subjects
        ]
        self._keys: dict[bytes, tuple[bytes, Identity | Denial]] = {}
        """By digest: a search tells nothing of any key, as nobody can choose the digest of a guess."""
        for key in keys:
            digest = bytes.fromhex(key.sha256)
            self._keys[digest] = digest, self._of_key(key)
        self._holders = {
            identity.by: identity for _, identity in self._keys.values() if isinstance(identity, Identity)
        }

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._keys)

    def of_key(self, digest: bytes, now: float) -> Identity | Denial:
        """The holder of the key with this SHA-256."""
        found = self._keys.get(digest)
        if found is None or not compare_digest(found[0], digest):
            return UNKNOWN
        identity = found[1]
        return EXPIRED if isinstance(identity, Identity) and identity.ends_at <= now else identity

    def still_allows(self, identity: Identity, model: str | None) -> bool:
        """Whether a client that was admitted before may still use a model, or None where there is none."""
        if identity.by.startswith(KEY):
            held = self._holders.get(identity.by)
            grant: Grant | Denial | None = held.grant if held is not None else None
        else:
            grant = self._grants.get(identity.grant.name) or self._of_undefined(identity.grant.name)
        return isinstance(grant, Grant) and (model is None or grant.may_use(model))

    def of_subject(self, subject: str, by: str, ends_at: float) -> Identity | Denial:
        """The client of this name, which a token or a client certificate proves."""
        if not self._are_tenants_known:
            return TENANTS_UNKNOWN
        grant = self._grants.get(self._owner(subject)) or self._of_undefined(subject)
        if isinstance(grant, Denial):
            return grant
        return Identity(grant=grant, by=by, ends_at=ends_at)

    def has_subject(self, subject: str) -> bool:
        """Whether it belongs to a tenant that is defined."""
        return bool(self._owner(subject))

    def _owner(self, subject: str) -> str:
        """The tenant that a subject is, or belongs to; empty if there is none."""
        if subject in self._grants:
            return subject
        return next((name for name, names in self._subjects if subject in names), "")

    def _of_key(self, key: Key) -> Identity | Denial:
        by = f"{KEY}{key.id}"
        if key.admin:
            return Identity(grant=Grant(key.tenant), by=by, is_admin=True, ends_at=key.ends_at)
        if not self._are_tenants_known:
            return TENANTS_UNKNOWN
        grant = self._grants.get(key.tenant) or self._of_undefined(key.tenant)
        if isinstance(grant, Denial):
            return grant
        return Identity(grant=grant, by=by, ends_at=key.ends_at)

    def _of_undefined(self, name: str) -> Grant | Denial:
        if not self.tenants:
            return Grant(name)
        default = self.tenants.get(DEFAULT)
        return Grant(DEFAULT, default, flow=name) if default is not None else unknown_tenant(name)
