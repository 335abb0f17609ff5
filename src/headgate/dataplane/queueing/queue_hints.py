"""Reads the queue hints in a request's headers: flow, time objective, and how long the client waits.

Only read for requests that are queued.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Protocol

from headgate.dataplane import trust
from headgate.dataplane.objective_headers import positive
from headgate.requests.queueing.hints import QueueHints

if TYPE_CHECKING:
    from headgate.auth.tenant import Grant
    from headgate.dataplane.settings import DataPlaneSettings
    from headgate.requests.client import Header

DEFAULT_FLOW = "default-flow"
"""For requests of a client without key and address, as on Unix sockets; the Endpoint Picker's name for it."""
MAX_FLOW_CHARACTERS = 128
"""Longer names are cut, so names with the same beginning are one flow."""

FAIRNESS_IDS = (
    b"x-llm-d-inference-fairness-id",
    b"x-gateway-inference-fairness-id",
    b"x-headgate-fairness-id",
)
"""The first of these headers names the flow."""
_DEADLINES_MS = (b"x-request-timeout-ms", b"x-envoy-expected-rq-timeout-ms")
"""The time after which a client or proxy gives up the request."""
_SILENCES_S = (b"x-stainless-read-timeout", b"x-stainless-timeout")
"""The time without any byte after which the SDKs of OpenAI and Anthropic give up."""
PROGRESS = b"x-headgate-progress"
_API_KEYS = (b"authorization", b"x-api-key", b"api-key")

_KNOWN = frozenset((*FAIRNESS_IDS, *_DEADLINES_MS, *_SILENCES_S, PROGRESS, *_API_KEYS))
_YES = ("1", "true", "yes")


class HintedRequest(Protocol):
    """A request, as far as its hints are concerned."""

    @property
    def headers(self) -> list[Header]: ...
    @property
    def is_http_1_0(self) -> bool: ...
    @property
    def objective_s(self) -> float:
        """The time in which the client wants its first token; infinite without one."""
        ...

    @property
    def is_from_trusted(self) -> bool: ...
    @property
    def client_address(self) -> str: ...
    @property
    def tenant(self) -> Grant | None:
        """What its client may do; None if clients need no credentials."""
        ...


def read(
    request: HintedRequest, settings: DataPlaneSettings, *, is_stream: bool, flow_header: bytes = b""
) -> QueueHints:
    """The hints in a request's headers; if there is a `flow_header`, only that header names its flow."""
    tenant_header = settings.queue.tenant_header.lower().encode()
    found: dict[bytes, str] = {}
    for name, value in request.headers:
        if (name in _KNOWN or name in (tenant_header, flow_header)) and name not in found:
            found[name] = value.decode("latin-1").strip()
    # A head without a length needs chunks.
    wants_progress = is_stream and not request.is_http_1_0 and found.get(PROGRESS, "").lower() in _YES
    patiences = [_positive(found.get(name)) / 1e3 for name in _DEADLINES_MS]
    if not wants_progress:  # a client that receives progress does not wait in silence
        patiences += (_positive(found.get(name)) for name in _SILENCES_S)
    if flow_header and request.tenant is None:
        flow, address = _cut(found.get(flow_header, "")), ""
    else:
        flow, address = _flow(found, request, settings)
    return QueueHints(
        flow=flow,
        address=address,
        objective_s=request.objective_s,
        patience_s=min(patiences),
        wants_progress=wants_progress,
    )


def _flow(found: dict[bytes, str], request: HintedRequest, settings: DataPlaneSettings) -> tuple[str, str]:
    """The flow of a request: its tenant; or from a trusted header, else the client's API key or address.

    With a key that nobody checks, the address is returned second: keys are invented as easily as
    fairness ids.
    """
    is_trusted, tenant = request.is_from_trusted, request.tenant
    if tenant is not None:
        chosen = ""
        if tenant.chooses_flow or (not tenant.is_defined and settings.queue.fairness_ids_from == "anyone"):
            chosen = next((found[name] for name in FAIRNESS_IDS if found.get(name)), "")
        return _cut(chosen or tenant.flow), ""
    flow = ""
    if trust.believes(settings.queue.fairness_ids_from, is_trusted=is_trusted):
        flow = next((found[name] for name in FAIRNESS_IDS if found.get(name)), "")
    if not flow and settings.queue.tenant_header and is_trusted:
        flow = found.get(settings.queue.tenant_header.lower().encode(), "")
    if flow := _cut(flow):
        return flow, ""
    address = trust.counted_as(request.client_address)
    key = next((found[name] for name in _API_KEYS if found.get(name)), "")
    return (_of_key(key), address or DEFAULT_FLOW) if key else (address or DEFAULT_FLOW, "")


def _of_key(value: str) -> str:
    """A name for an API key that does not reveal the key."""
    scheme, _, rest = value.partition(" ")
    key = rest.strip() if scheme.lower() == "bearer" else value
    return "key-" + hashlib.blake2b(key.encode(), digest_size=6, person=b"headgate-flow").hexdigest()


def _cut(flow: str) -> str:
    return flow[:MAX_FLOW_CHARACTERS]


def _positive(text: str | None) -> float:
    """A number above 0; anything else counts as infinite."""
    if not text:
        return math.inf
    return positive(text.encode("latin-1"))
