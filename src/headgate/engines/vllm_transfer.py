"""KV transfer between prefill and decode workers of vLLM: its configuration, from what the user gave.

Without any configuration, workers use NIXL, which vLLM's own image has. A worker without its own
configuration uses the connector of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.engines import flags
from headgate.engines.flags import Config
from headgate.engines.launch import POD_IP, Setup

FLAG: Final = "kv-transfer-config"

CONNECTORS: Final[Mapping[str, str]] = {
    "NixlConnector": "nixl",
    "MooncakeConnector": "mooncake",
    "MooncakeConnectorV1": "mooncake",
    "LMCacheConnectorV1": "lmcache",
    "LMCacheMPConnector": "lmcache",
    # These keep blocks in a store that both workers read.
    "MooncakeStoreConnector": "http",
    "SharedStorageConnector": "http",
    "ExampleConnector": "http",
}
"""`kvConnector` of a ModelServer by vLLM's name."""
_MULTI: Final = "MultiConnector"

_ROLES: Final = {"prefill": "kv_producer", "decode": "kv_consumer"}
_BOTH: Final = "kv_both"


def derive(config: Config, setup: Setup) -> tuple[str, dict[str, str]]:
    """Complete the configuration; returns the `kvConnector` and the environment for it."""
    given = config.take_object(FLAG)
    if given is None and isinstance(setup.transfer, dict):
        given = {key: value for key, value in setup.transfer.items() if key != "kv_role"}
    transfer: dict[str, object] = dict(given or {"kv_connector": "NixlConnector"})
    named = transfer.get("kv_connector")
    connector = _connector(transfer)
    if connector is None:
        known = ", ".join([*CONNECTORS, _MULTI])
        config.problem(FLAG, f"has the kv_connector {flags.shown(named)}; known are {known}")
        return "", {}
    own_role = _BOTH if connector in ("nixl", "http") else _ROLES[setup.role]
    role = transfer.setdefault("kv_role", own_role)
    if role not in (_BOTH, _ROLES[setup.role]):
        needed = f"{_ROLES[setup.role]} or {_BOTH}"
        config.problem(FLAG, f"has the kv_role {flags.shown(role)}; a {setup.role} worker needs {needed}")
    config.default(FLAG, transfer)
    environment = {"VLLM_NIXL_SIDE_CHANNEL_HOST": POD_IP} if connector == "nixl" else {}
    return connector, environment


def _connector(transfer: Mapping[str, object]) -> str | None:
    """The `kvConnector`; for several connectors in one, that of the first that transfers."""
    named = transfer.get("kv_connector")
    if named != _MULTI:
        return CONNECTORS.get(named) if isinstance(named, str) else None
    extra = transfer.get("kv_connector_extra_config")
    inner = extra.get("connectors") if isinstance(extra, dict) else None
    for each in inner if isinstance(inner, list) else ():
        name = each.get("kv_connector") if isinstance(each, dict) else None
        if isinstance(name, str) and name in CONNECTORS:
            return CONNECTORS[name]
    return None
