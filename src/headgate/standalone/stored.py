"""Objects as an API server would have stored them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate import api
from headgate.api import gie_v1, gie_v1alpha1, marks
from headgate.api.discovery_kinds import EndpointSlice
from headgate.api.meta import Resource
from headgate.api.reference_grants import ReferenceGrant
from headgate.api.stored_object import StoredObject
from headgate.standalone import composing

KINDS: Final[Mapping[tuple[str, str], Resource]] = {
    (kind.resource.api_version, kind.resource.kind): kind.resource
    for kind in (
        *(api.ModelRoute, api.ModelServer),
        *(gie_v1.InferencePool, gie_v1alpha1.InferencePool),
        *(api.InferenceModel, api.InferenceObjective, api.InferenceModelRewrite),
        *(api.GatewayClass, api.Gateway, api.HttpRoute, ReferenceGrant),
        *(api.Pod, api.Service, EndpointSlice, api.Secret, api.Namespace, api.Tenant),
    )
}
"""What gateways read, by apiVersion and kind."""


def stored(obj: Mapping[str, Any], created: str = "") -> StoredObject:
    """The object with what an API server adds to it: namespace, uid and, if it has none, this creation
    time. Raises KeyError for a kind that gateways do not read."""
    resource = KINDS[obj["apiVersion"], obj["kind"]]
    metadata = dict(obj["metadata"])
    namespace = metadata.get("namespace") or composing.NAMESPACE if resource.namespaced else ""
    metadata["namespace"] = namespace
    place = f"{resource.path()} {namespace} {metadata['name']}"
    metadata["uid"] = metadata.get("uid") or hashlib.sha256(place.encode()).hexdigest()[:32]
    if created:
        metadata.setdefault("creationTimestamp", created)
    content = {**obj, "metadata": metadata}
    if resource.kind == "Pod":
        content = with_status(content)
    elif resource.kind == "Secret":
        content = _with_data(content)
    return StoredObject(resource.path(), namespace, metadata["name"], msgspec.json.encode(content))


def with_status(pod: dict[str, Any]) -> dict[str, Any]:
    """Nobody probes a Pod here: one without conditions is ready, if it has an address."""
    status = pod.get("status") or {}
    if status.get("conditions"):
        return pod
    host = status.get("podIP") or _host(pod["metadata"].get("annotations") or {})
    return {**pod, "status": {**composing.status(host, is_ready=bool(host)), **status}}


def _host(annotations: Mapping[str, str]) -> str:
    try:
        return marks.Address.parse(annotations.get(marks.ADDRESS, "")).host
    except ValueError:
        return ""


def _with_data(secret: dict[str, Any]) -> dict[str, Any]:
    """With everything in `data`."""
    texts = secret.get("stringData") or {}
    added = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    rest = {name: value for name, value in secret.items() if name != "stringData"}
    return {**rest, "data": (secret.get("data") or {}) | added}
