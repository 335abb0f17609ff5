"""An object as it is passed between processes: undecoded, with its identity."""

from __future__ import annotations

import msgspec


class StoredObject(msgspec.Struct, frozen=True):
    """One object as JSON. `collection` is the path of its kind, for all namespaces."""

    collection: str
    namespace: str
    name: str
    body: bytes

    @property
    def place(self) -> tuple[str, str, str]:
        """Its identity."""
        return self.collection, self.namespace, self.name
