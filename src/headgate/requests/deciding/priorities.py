"""The priority of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from headgate import routing

if TYPE_CHECKING:
    from headgate.requests.client import ClientRequest
    from headgate.requests.deciding.surroundings import Surroundings
    from headgate.requests.destinations import Destination

_NAME_OBJECTIVES: Final = frozenset(routing.OBJECTIVE_HEADERS)


def priority_of(known: Surroundings, destination: Destination, request: ClientRequest) -> int:
    """The priority of a request: its objective's, if it names one of the pool, else its route's."""
    priority, objectives = destination.match.route.priority, destination.pool.pool.objectives
    tenant = request.tenant
    if objectives and _chooses_objective(known, request):
        priority = _priority(objectives, request, priority)
    return priority if tenant is None else tenant.bounded(priority)


def _chooses_objective(known: Surroundings, request: ClientRequest) -> bool:
    """Whether the request may name its objective."""
    tenant = request.tenant
    if tenant is not None and tenant.is_defined:
        return tenant.chooses_objective
    return known.believes_objectives or (tenant is None and request.is_from_trusted)


def _priority(objectives: Mapping[str, int], request: ClientRequest, otherwise: int) -> int:
    """The priority of the objective that the request names, if the pool has that objective."""
    named = {header: value for header, value in reversed(request.headers) if header in _NAME_OBJECTIVES}
    if not named:
        return otherwise
    first = next(header for header in routing.OBJECTIVE_HEADERS if header in named)
    return objectives.get(named[first].decode("latin-1").strip(), otherwise)
