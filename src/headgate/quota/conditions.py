"""The condition LimitsShared of ModelRoutes: whether the gateways that share limits can do so.

Each gateway process reports its problems in its Lease; the first process by name writes the condition for
all. So the condition does not flap if some gateways reach Redis and others do not.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import msgspec

from headgate import api, cluster
from headgate.kubeschema import timestamps
from headgate.quota import redis_script
from headgate.quota.gateways import FIELD_MANAGER, Gateways, Problems
from headgate.routing.model_routes import token_limits
from headgate.routing.snapshot import TokenLimits

log = logging.getLogger(__name__)

SHARED = "LimitsShared"
REACHED, UNREACHABLE = "RedisReached", "RedisUnreachable"
UPDATE_S = 2.0
"""Interval between comparisons of the conditions with the gateways' reports."""
HOLD_S = 10.0
"""A problem is reported for so long after it was last seen."""
UPDATE_SHARE = 0.05
"""Share of a core that a comparison may take. With thousands of routes, they are less frequent."""
MAX_WRITES = 100
"""Conditions written per comparison."""
MAX_OTHERS = 20
"""Routes named in a condition."""
NAMED = 3
"""Reasons named in a condition."""

FindProblem = Callable[[str, str], str | None]
"""Returns why a Redis does not count, by its address and the key of the bucket there; "" if it does,
None if unknown."""


class LimitConditions:
    """Follows the given ModelRoutes, and writes their condition."""

    def __init__(
        self,
        client: cluster.Client,
        find_problem: FindProblem,
        gateways: Gateways,
        tell_count: Callable[[int], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`tell_count` gets the number of gateway processes."""
        self._client = client
        self._find_problem = find_problem
        self._gateways = gateways
        self._tell_count = tell_count
        self._clock = clock
        self._routes: dict[api.ObjectKey, api.ModelRoute] = {}
        """Routes that have the condition, or should."""
        self._recent: dict[str, tuple[str, float]] = {}
        """The last problem of each bucket, and when it was seen."""
        self._cpu_s = 0.0
        """CPU time of the comparison."""
        self._logged: set[str] = set()
        """Messages that are logged once."""

    def note(self, change: cluster.Change[api.ModelRoute]) -> None:
        """Apply a change of a route."""
        route, key = change.new, change.object.metadata.key
        if route is not None and (_limits(route) or condition(route)):
            self._routes[key] = route
        else:
            self._routes.pop(key, None)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._cpu_s = 0.0
            await self.update()
            await asyncio.sleep(max(UPDATE_S, self._cpu_s * (1 / UPDATE_SHARE - 1)))

    async def update(self) -> None:
        """Report this process's problems; if it is the first of all, write the conditions that are
        outdated."""
        if not self._routes:
            return
        try:
            with self._timed():
                problems = self._problems()
            await self._gateways.report(problems)
            all = await self._gateways.all()
            self._tell_count(len(all))
            if min(all) == self._gateways.me:
                await self._write_all(all)
                await self._gateways.forget_gone()
        except cluster.ApiError as error:
            self._log(
                f"gateways cannot tell each other by Leases whether they count limits together: {error}"
            )

    def _problems(self) -> Problems:
        now = self._clock()
        found: dict[str, str] = {}
        for route in self._routes.values():
            limits = _limits(route)
            if limits is None:
                continue
            bucket = _bucket(route, limits)
            why = self._find_problem(limits.redis_address or "", _key(route))
            if why:
                self._recent[bucket] = why, now
            before, at = self._recent.get(bucket, ("", -HOLD_S))
            if now - at >= HOLD_S:
                before = ""
            if why is not None or before:
                found[bucket] = before
        self._recent = {bucket: self._recent[bucket] for bucket, why in found.items() if why}
        return found

    async def _write_all(self, all: Mapping[str, Problems]) -> None:
        """Write at most MAX_WRITES; the next comparison writes the others."""
        with self._timed():
            wanted = list(itertools.islice(self._wanted(all), MAX_WRITES))
        for route, conditions in wanted:
            await self._write(route, conditions)

    def _wanted(self, all: Mapping[str, Problems]) -> Iterator[tuple[api.ModelRoute, list[api.Condition]]]:
        limited = [(route, limits, _bucket(route, limits)) for route, limits in self._limited()]
        together: dict[str, dict[TokenLimits, list[str]]] = {}
        for route, limits, bucket in limited:
            together.setdefault(bucket, {}).setdefault(limits, []).append(f"{route.metadata.key}")
        yield from ((route, []) for route in self._routes.values() if _limits(route) is None)
        for route, limits, bucket in limited:
            said = {name: problems[bucket] for name, problems in all.items() if bucket in problems}
            others = self._others(route, limits, together[bucket])
            condition = due(route, limits, said, others, self._clock())
            if condition is not None:
                yield route, [condition]

    def _limited(self) -> Iterator[tuple[api.ModelRoute, TokenLimits]]:
        for route in self._routes.values():
            if (limits := _limits(route)) is not None:
                yield route, limits

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        began_s = time.thread_time()
        yield
        self._cpu_s += time.thread_time() - began_s

    def _others(
        self, route: api.ModelRoute, limits: TokenLimits, together: Mapping[TokenLimits, list[str]]
    ) -> list[str]:
        """Routes with another limit in the same bucket, whose routes are `together`: the first ones, and the
        number of the rest."""
        if len(together) == 1:
            return []
        others = itertools.chain.from_iterable(keys for each, keys in together.items() if each != limits)
        found = sorted(itertools.islice(others, MAX_OTHERS))
        more = sum(map(len, together.values())) - len(together[limits]) - len(found)
        found += [f"{more} more"] if more else []
        if found:
            self._log(
                f"{route.metadata.key} and {', '.join(found)} count the tokens of {_model(route)} in one "
                f"bucket of the Redis at {limits.redis_address}, each by its own limit: give them one limit, "
                f"or Redis servers of their own"
            )
        return found

    def _log(self, what: str) -> None:
        if what not in self._logged and len(self._logged) < 100:
            self._logged.add(what)
            log.warning("%s", what)

    async def _write(self, route: api.ModelRoute, conditions: list[api.Condition]) -> None:
        """Write by server-side apply, which keeps the conditions of others."""
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
            self._routes.pop(metadata.key, None)  # it is gone or replaced, of which a change will come
            return
        except cluster.ApiError as error:
            self._log(f"the condition {SHARED} of {metadata.key} cannot be written: {error}")
            return
        if metadata.key in self._routes:
            # A change from the informer in the meantime is as new, or newer.
            self.note(cluster.Change(cluster.ChangeKind.MODIFIED, route, written))


def _limits(route: api.ModelRoute) -> TokenLimits | None:
    """The limits, if they are counted in a Redis."""
    limits = token_limits(route.spec.rate_limit)
    return limits if limits is not None and limits.redis_address is not None else None


def _model(route: api.ModelRoute) -> str:
    return route.spec.model_name or f"{route.metadata.key}"


def _key(route: api.ModelRoute) -> str:
    return redis_script.bucket(route.spec.model_name, f"{route.metadata.key}")


def _bucket(route: api.ModelRoute, limits: TokenLimits) -> str:
    return f"{limits.redis_address} {_key(route)}"


def condition(route: api.ModelRoute) -> api.Condition | None:
    """The condition as written now."""
    said = route.status.conditions if route.status is not None else []
    return next((each for each in said if each.type == SHARED), None)


def _reasons(away: Mapping[str, str]) -> list[str]:
    """Each reason once, with the name of the process that reports it, or the number of such processes."""
    by_reason: dict[str, list[str]] = {}
    for name, why in away.items():
        by_reason.setdefault(why, []).append(name)
    return [
        f"{names[0] if len(names) == 1 else f'{len(names)} processes'}: {why}"
        for why, names in by_reason.items()
    ]


def due(
    route: api.ModelRoute, limits: TokenLimits, said: Problems, others: list[str], now: float
) -> api.Condition | None:
    """The condition to write; None if it is up to date.

    `said`: the report of each gateway process that has one. `others`: routes that share the bucket with
    another limit. `now`: seconds since 1970.
    """
    if not said:
        return None
    away = {name: why for name, why in sorted(said.items()) if why}
    if away:
        told = (
            f"{len(away)} of {len(said)} gateway processes go by their shares of the limit, as Redis at "
            f"{limits.redis_address} does not count for them"
        )
    else:
        told = f"Gateways count together in Redis at {limits.redis_address}"
    if others:
        told += f", in one bucket with {', '.join(others)}, which applies another limit to it"
    before = condition(route)
    status: Literal["True", "False"] = "False" if away else "True"
    if before is not None and before.status == status and before.message.partition(": ")[0] == told:
        return None  # which processes report it, and in which words, may change often
    if away:
        told += ": " + "; ".join(_reasons(away)[:NAMED])
    return api.Condition(
        type=SHARED,
        status=status,
        reason=UNREACHABLE if away else REACHED,
        message=told,
        observed_generation=route.metadata.generation,
    ).after(before, timestamps.seconds(now))
