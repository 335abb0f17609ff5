"""The settings of a gateway: one nested structure from which its file, flags, environment and docs are
derived.

Times are in seconds and sizes in bytes. Each setting is `Annotated` with `setting(...)`: its description, its
bounds, and whether a running gateway applies a new value. The docs use the docstring of a section as its
description.

A setting has a path (`clients.max_body_bytes`) and a key, with "_" for the "." (`clients_max_body_bytes`).
The names of flags (`--clients-max-body-bytes`) and environment variables (`HEADGATE_CLIENTS_MAX_BODY_BYTES`)
derive from the key, so no two settings may have the same one.
"""

from headgate.dataplane.settings import Section, weight
from headgate.gateway.settings.conflicts import InvalidSettings, conflicts
from headgate.gateway.settings.gateway_settings import GatewaySettings, changes, paths

__all__ = ["GatewaySettings", "InvalidSettings", "Section", "changes", "conflicts", "paths", "weight"]
