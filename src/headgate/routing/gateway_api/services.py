"""The endpoints of Services: from their EndpointSlices, or from Pods where nothing writes EndpointSlices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from headgate import api
from headgate.api.discovery_kinds import EndpointSlice
from headgate.routing import endpoints
from headgate.routing.gateway_api.backends import H2C, ServicePort, port_of
from headgate.routing.snapshot import Endpoint

SERVICE_LABEL: Final = "kubernetes.io/service-name"
"""On EndpointSlices: the Service that they belong to."""


class ServiceEndpoints(msgspec.Struct, frozen=True):
    """The ready endpoints of one port of a Service."""

    key: ServicePort
    endpoints: tuple[Endpoint, ...]
    http2: bool = False
    """Whether they speak HTTP/2 with prior knowledge; otherwise HTTP/1.1."""


def service_of_slice(piece: EndpointSlice) -> api.ObjectKey | None:
    """The Service that a slice belongs to."""
    name = piece.metadata.labels.get(SERVICE_LABEL)
    return api.ObjectKey(piece.metadata.namespace, name) if name else None


def endpoints_of(
    key: ServicePort, service: api.Service, slices: Iterable[EndpointSlice], pods: Iterable[api.Pod]
) -> ServiceEndpoints:
    """The endpoints of a port. `slices`: those of the Service. `pods`: ready Pods that it selects, which are
    used if there are no slices: the embedded API server has no controller that writes them."""
    spec = port_of(service, key.port) or {}
    found = list(slices)
    pairs = _of_slices(spec.get("name") or "", found) if found else _of_pods(spec, key.port, pods)
    made = sorted({(host, port) for host, port in pairs})
    names = tuple(Endpoint(str(key), host, port) for host, port in made)
    return ServiceEndpoints(key, names, spec.get("appProtocol") == H2C)


def _of_slices(port_name: str, slices: Iterable[EndpointSlice]) -> Iterator[tuple[str, int]]:
    for piece in slices:
        if piece.address_type == "FQDN":
            continue
        ports = [each.port for each in piece.ports if each.name == port_name and each.port]
        for endpoint in piece.endpoints:
            # unset counts as ready
            if endpoint.conditions.ready is not False:
                for address in endpoint.addresses[:1]:
                    yield from ((address, port) for port in ports)


def _of_pods(spec: Mapping[str, object], number: int, pods: Iterable[api.Pod]) -> Iterator[tuple[str, int]]:
    for pod in pods:
        try:
            address = endpoints.address(pod)
        except ValueError:
            continue
        port = endpoints.own_port(pod, address) or _target(spec.get("targetPort") or number, pod)
        if port is not None:
            yield address.host, port


def _target(target: object, pod: api.Pod) -> int | None:
    """The port of a Pod that a `targetPort` means: a number, or the name of a container's port."""
    if isinstance(target, int):
        return target
    named = (
        port.container_port
        for container in pod.spec.containers
        for port in container.ports
        if port.name == target
    )
    return next(named, None)
