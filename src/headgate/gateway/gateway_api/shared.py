"""What all connections of Gateways in one process share besides the gateway's own services."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from headgate import api, routing
from headgate.gateway.connections import Connections, EndpointConnections, Reached
from headgate.gateway.gateway_api.balancing import Balancer
from headgate.gateway.gateway_api.pickers import Pickers
from headgate.routing import gateway_api
from headgate.routing.gateway_api import NO_ENTRY_POINTS, EntryPoints, EntryRule

if TYPE_CHECKING:
    from headgate.gateway.clients import Clients
    from headgate.gateway.services import Services
    from headgate.gateway.settings import GatewaySettings
    from headgate.routing.gateway_api import Place, ServiceEndpoints


class Shared:
    """Owned by a Shell."""

    def __init__(
        self,
        services: Services,
        clients: Clients,
        rng: random.Random,
        phase: float,
    ) -> None:
        """`phase`: the point in their rounds at which weighted splits begin."""
        self.services = services
        self.clients = clients
        self.entry_points = NO_ENTRY_POINTS
        self.connections = Connections(services.settings, services.turns)
        """To the endpoints of Services."""
        self.balancer = Balancer()
        self.pickers = Pickers(services.loop, self.balancer)
        self.metrics = services.recorder.services
        self.rng = rng
        self.mirrors_in_flight = 0
        self.ports: dict[Place, str] = {}
        """All ports of listeners: empty for those that are open, else why not."""
        self._splits = routing.Splits(phase)

    def use(self, entry_points: EntryPoints) -> None:
        """Serve by other entry points from now on. Requests in progress continue by their own."""
        if entry_points is self.entry_points:
            return
        before, self.entry_points = self.entry_points, entry_points
        self._splits.change(_as_routes(before.rules), _as_routes(entry_points.rules))
        services = entry_points.services.values()
        self.balancer.keep(services)
        self.pickers.keep({endpoint for each in services for endpoint in each.endpoints})
        self.connections.keep_only(
            Reached(endpoint, None, each.http2) for each in services for endpoint in each.endpoints
        )
        routes = {rule.as_route.name for rule in entry_points.rules}
        self.services.recorder.use_entry_points(routes, {str(each.key) for each in services})

    def ports_shown(self) -> dict[str, str]:
        """The ports, for the admin page: `open`, or why not."""
        return {f"{place.address or '*'}:{place.port}": why or "open" for place, why in self.ports.items()}

    def picker_of(self, pool: routing.Pool) -> ServiceEndpoints | None:
        """The Service that picks the endpoints of a pool; None if it does not exist."""
        found = [self.entry_points.services.get(port) for port in gateway_api.picker_of(pool)]
        return found[0] if found else None

    def backend_of(self, rule: EntryRule) -> int | None:
        """The index of the backend that gets the next request of a rule; None if none has a weight.

        Services take exact turns. Of pools, each draw is independent, as in other gateways: the conformance
        suite of the Inference Extension waits for three requests in a row at a pool with 30 % of them, which
        exact turns never have (C12)."""
        if sum(isinstance(each, api.ObjectRef) for each in rule.backends) > 1:
            weights = [target.weight for target in rule.split.targets]
            drawn = self.rng.choices(rule.split.targets, weights)[0] if any(weights) else None
            return int(drawn.model) if drawn is not None else None
        target = self._splits.next(rule.as_route.key, rule.split)
        return int(target.model) if target is not None else None

    def connections_to(self, service: ServiceEndpoints, endpoint: routing.Endpoint) -> EndpointConnections:
        return self.connections.to(Reached(endpoint, None, service.http2))

    def change(self, settings: GatewaySettings) -> None:
        self.connections.change(settings)

    def sweep(self) -> None:
        self.connections.sweep()
        self.pickers.sweep()

    def close(self) -> None:
        self.connections.close()
        self.pickers.close()


def _as_routes(rules: Iterable[EntryRule]) -> list[routing.Route]:
    """As what keeps the turns of weighted rules knows them."""
    return [msgspec.structs.replace(rule.as_route, rules=(rule.split,)) for rule in rules]
