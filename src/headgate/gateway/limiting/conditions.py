"""The condition LimitsShared of ModelRoutes: whether the gateways that count together can do so.

Every gateway writes it, each by what it meets itself. One that cannot reach its Redis says so (False), and
says it again if it is taken back while that lasts. One that can takes back what it said itself, and what
another said long ago: that may be gone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import msgspec

from headgate import api, cluster
from headgate.routing.limits import token_limits

log = logging.getLogger(__name__)

SHARED = "LimitsShared"
REACHED, UNREACHABLE = "RedisReached", "RedisUnreachable"
FIELD_MANAGER = "headgate-gateway"
LOOK_S = 2.0
"""How often it is compared with what gateways meet."""
BELIEVED_S = 300.0
"""How long a gateway's word counts that has not been heard again."""

Trouble = Callable[[str, str], str | None]
"""Why a Redis does not count, by its address and the name of the model's accounts; empty if it does, None
while that is not known."""


class LimitConditions:
    """Follows the ModelRoutes that it is told of, and writes their condition; `me` names this gateway."""

    def __init__(
        self,
        client: cluster.Client,
        trouble: Trouble,
        me: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._trouble = trouble
        self._me = me
        self._clock = clock
        self._routes: dict[api.ObjectKey, api.ModelRoute] = {}
        """Those that have the condition, or should."""
        self._refused: set[str] = set()
        """What the server said to writes, each of which is logged once."""

    def note(self, change: cluster.Change[api.ModelRoute]) -> None:
        """Takes a change of a route."""
        route, key = change.new, change.object.metadata.key
        if route is not None and (_address(route) or condition(route)):
            self._routes[key] = route
        else:
            self._routes.pop(key, None)

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Writes what is not said yet."""
        for route in list(self._routes.values()):
            address = _address(route)
            if address is None:
                await self._write(route, [])
                continue
            wanted = due(route, address, self._trouble(address, _accounts(route)), self._me, self._clock())
            if wanted is not None:
                await self._write(route, [wanted])

    async def _write(self, route: api.ModelRoute, conditions: list[api.Condition]) -> None:
        """By server-side apply, in which the conditions of others stay."""
        resource, metadata = route.resource, route.metadata
        patch = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid},
            "status": {"conditions": msgspec.to_builtins(conditions)},
        }
        try:
            written = await self._client.patch(
                type(route),
                metadata.name,
                metadata.namespace,
                patch,
                cluster.PatchType.APPLY,
                subresource="status",
                field_manager=FIELD_MANAGER,
                force=True,
            )
        except (cluster.NotFound, cluster.Conflict):
            self._routes.pop(metadata.key, None)  # it is gone, or another by now, which is told
            return
        except cluster.ApiError as error:
            if str(error) not in self._refused and len(self._refused) < 100:
                self._refused.add(str(error))
                log.warning("the condition %s of %s cannot be written: %s", SHARED, metadata.key, error)
            return
        if metadata.key in self._routes:
            # What the informer brings meanwhile is as new, or newer.
            self.note(cluster.Change(cluster.ChangeKind.MODIFIED, route, written))


def _address(route: api.ModelRoute) -> str | None:
    limits = token_limits(route.spec.rate_limit)
    return limits.redis_address if limits is not None else None


def _accounts(route: api.ModelRoute) -> str:
    return route.spec.model_name or f"{route.metadata.key}"


def condition(route: api.ModelRoute) -> api.Condition | None:
    """As it is written now."""
    said = route.status.conditions if route.status is not None else []
    return next((each for each in said if each.type == SHARED), None)


def due(
    route: api.ModelRoute, address: str, trouble: str | None, me: str, now: float
) -> api.Condition | None:
    """The condition to be written; None where what is written is right, or it is for others to say.

    `now` is seconds since 1970.
    """
    if trouble is None:
        return None
    said = condition(route)
    if trouble:
        if said is not None and said.status == "False" and said.reason == UNREACHABLE:
            return None
        told = f"{me} goes by its share of the limit, as Redis at {address} does not count for it: {trouble}"
    else:
        told = f"Gateways count together in Redis at {address}"
        if said is not None:
            is_others = said.status == "False" and not said.message.startswith(me)
            if said.message == told or (is_others and now - _since(said) < BELIEVED_S):
                return None
    return api.Condition(
        type=SHARED,
        status="False" if trouble else "True",
        reason=UNREACHABLE if trouble else REACHED,
        message=told,
        observed_generation=route.metadata.generation,
    ).after(said, api.timestamps.seconds(now))


def _since(said: api.Condition) -> float:
    """When it began to hold, in seconds since 1970."""
    try:
        return api.timestamps.parse(said.last_transition_time or "")
    except ValueError:
        return 0.0
