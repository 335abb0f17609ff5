"""All keys and tenants at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hmac import compare_digest

from headgate.api.tenants import Tenant
from headgate.auth.keys import Key
from headgate.auth.outcome import EXPIRED, UNKNOWN, Denial, Identity, unknown_tenant
from headgate.auth.patterns import Names
from headgate.auth.tenant import Grant

DEFAULT = "default"
"""The tenant whose definition applies to all tenants that are not defined. They share its limits, and each
has a flow of its own."""

KEY = "key "
"""Begins how the holder of a key was authenticated; its id follows."""


class Directory:
    """Immutable. `tenants` are by name; without any, every tenant may do everything."""

    def __init__(self, keys: Iterable[Key] = (), tenants: Mapping[str, Tenant] | None = None) -> None:
        self.tenants = dict(tenants or {})
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

    def still_allows(self, identity: Identity, model: str) -> bool:
        """Whether a client that was admitted before may still use a model."""
        if identity.by.startswith(KEY):
            held = self._holders.get(identity.by)
            return held is not None and held.grant.may_use(model)
        grant = self._grants.get(identity.grant.name) or self._of_undefined(identity.grant.name)
        return isinstance(grant, Grant) and grant.may_use(model)

    def of_subject(self, subject: str, by: str, ends_at: float) -> Identity | Denial:
        """The client of this name, which a token or a client certificate proves."""
        named = subject
        if subject not in self._grants:
            named = next((name for name, names in self._subjects if subject in names), "")
        grant = self._grants.get(named) or self._of_undefined(subject)
        if isinstance(grant, Denial):
            return grant
        return Identity(grant=grant, by=by, ends_at=ends_at)

    def _of_key(self, key: Key) -> Identity | Denial:
        by = f"{KEY}{key.id}"
        if key.admin:
            return Identity(grant=Grant(key.tenant), by=by, is_admin=True, ends_at=key.ends_at)
        grant = self._grants.get(key.tenant) or self._of_undefined(key.tenant)
        if isinstance(grant, Denial):
            return grant
        return Identity(grant=grant, by=by, ends_at=key.ends_at)

    def _of_undefined(self, name: str) -> Grant | Denial:
        if not self.tenants:
            return Grant(name)
        default = self.tenants.get(DEFAULT)
        return Grant(DEFAULT, default, flow=name) if default is not None else unknown_tenant(name)
