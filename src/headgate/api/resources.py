"""Where a kind lives on a Kubernetes API server: its group, version, plural and URL paths."""

from __future__ import annotations

import msgspec


class Resource(msgspec.Struct, frozen=True):
    """The address of one kind: `Resource("apps", "v1", "Deployment", "deployments")`."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The value of an object's `apiVersion`: "v1" for the core group, else "group/version"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_name(self) -> str:
        """The plural with its group, as `kubectl` and CRD names write it: "deployments.apps"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The URL path of the collection, of one object, or of its subresource.

        Without a namespace a namespaced resource gives the path of all namespaces.
        """
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace is not None and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)
