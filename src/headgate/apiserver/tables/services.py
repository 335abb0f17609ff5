"""Rows of Services and of the addresses behind them."""

from __future__ import annotations

import datetime
from typing import Any

from headgate.apiserver.tables.ages import age
from headgate.apiserver.tables.values import NONE, mappings

Object = dict[str, Any]


def service(obj: Object, now: datetime.datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    ports = ",".join(f"{p.get('port')}/{p.get('protocol', 'TCP')}" for p in spec.get("ports") or [])
    selector = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items()))
    return [
        spec.get("type", "ClusterIP"),
        spec.get("clusterIP") or NONE,
        ",".join(spec.get("externalIPs") or []) or NONE,
        ports or NONE,
        age(obj, now),
        selector or NONE,
    ]


def endpoint_slice(obj: Object, now: datetime.datetime) -> list[Any]:
    ports = ",".join(str(p.get("port", "*")) for p in obj.get("ports") or []) or "<unset>"
    found = [a for endpoint in obj.get("endpoints") or [] for a in endpoint.get("addresses") or []]
    return [obj.get("addressType", ""), ports, _some(found), age(obj, now)]


def endpoints(obj: Object, now: datetime.datetime) -> list[Any]:
    found = []
    for subset in obj.get("subsets") or []:
        ports = [f":{port.get('port')}" for port in mappings(subset.get("ports"))] or [""]
        found += [f"{a.get('ip')}{port}" for port in ports for a in mappings(subset.get("addresses"))]
    return [_some(found), age(obj, now)]


def _some(names: list[str]) -> str:
    """Up to three, and how many more there are."""
    shown = ",".join(names[:3])
    return f"{shown} + {len(names) - 3} more..." if len(names) > 3 else shown or NONE
