"""Tokens of service accounts for Pods, from the TokenRequest subresource."""

from __future__ import annotations

import time
from dataclasses import dataclass

import msgspec

from headgate import api, cluster
from headgate.kubeschema import timestamps
from headgate.node.pod_spec import TokenSource
from headgate.node.volume_files import VolumeError

_LONGEST_USE_S = 24 * 3600.0
_RENEWED_PART = 0.8
"""As with a kubelet, a token is replaced when this part of its time is over, or after a day."""


@dataclass(frozen=True)
class Token:
    """Times in seconds of Unix time."""

    value: str
    renew_at: float


class _Issued(msgspec.Struct, frozen=True, rename="camel"):
    token: str
    expiration_timestamp: str


class _Answer(msgspec.Struct, frozen=True):
    status: _Issued


async def request(client: cluster.Client, pod: api.Pod, source: TokenSource) -> Token:
    """A new token of the Pod's account, valid only while the Pod exists. Raises VolumeError."""
    account = pod.spec.service_account_name or "default"
    metadata = pod.metadata
    spec = {
        "audiences": [source.audience] if source.audience else [],
        "expirationSeconds": source.expiration_seconds,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": metadata.name, "uid": metadata.uid},
    }
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = client.path_of(api.ServiceAccount.resource, account, metadata.namespace, "token")
    asked_at = time.time()
    try:
        answer = await client.ask("POST", path, body)
        issued = msgspec.json.decode(answer.body, type=_Answer).status
        expires_at = timestamps.parse(issued.expiration_timestamp)
    except (cluster.ApiError, msgspec.MsgspecError, ValueError) as error:
        raise VolumeError(f'no token for ServiceAccount "{account}": {error}') from error
    return Token(issued.token, renewal_time(asked_at, expires_at))


def renewal_time(issued_at: float, expires_at: float) -> float:
    return issued_at + min(_RENEWED_PART * (expires_at - issued_at), _LONGEST_USE_S)
