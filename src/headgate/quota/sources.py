"""Creates the budgets of routes: local to this process, or shared through an account."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable, Iterable
from typing import Any

from headgate import routing
from headgate.api.marks import Address
from headgate.flow.limits import Budget, Direction, LeasedBudget, LocalBudget, RouteLimit
from headgate.quota import redis_script
from headgate.quota.lease_source import LeaseSource
from headgate.quota.redis_access import RedisAccess
from headgate.quota.redis_transport import NoTransport, RedisTransport
from headgate.quota.settings import Settings
from headgate.quota.transport import Transport, public
from headgate.quota.waiter import Waiter

DIRECTIONS: tuple[Direction, ...] = "input", "output"
SUPERVISOR = "supervisor"
"""Name of the source that counts for all workers of this gateway."""
MAX_ADDRESSES = 32
"""Redis servers that one process uses. Each server that a route names costs a connection and attempts to open
it."""
USERNAME, PASSWORD = "REDIS_USERNAME", "REDIS_PASSWORD"


BEYOND = (
    f"a gateway counts in at most {MAX_ADDRESSES} Redis servers, and other routes name as many: name one of "
    f"those, or delete routes that are not needed and write this one again"
)

log = logging.getLogger(__name__)


class Sources:
    """The sources of all budgets: one per Redis that a route names, and one for limits that only this gateway
    counts, if it has several processes."""

    def __init__(
        self,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
        accounts: Transport | None = None,
    ) -> None:
        """`accounts`: those of the whole gateway, if this is one of its processes."""
        self._settings = settings
        self._loop = loop
        self._rng = rng
        self._by_address: dict[str, LeaseSource] = {}
        self._named: set[str] = set()
        """Addresses whose hosts the settings name."""
        self._is_beyond = False
        """Whether a route has ever exceeded the number of addresses."""
        self._gateways = 1
        """Gateway processes, as known from the API server."""
        self._gateway = self._started(SUPERVISOR, accounts, False) if accounts is not None else None

    def make(self, route: routing.Route, direction: Direction, limit: int, now: float) -> Budget:
        """The budget of one direction of a route. All routes for one model share one in Redis."""
        assert route.limits is not None
        address = route.limits.redis_address
        if address is not None and self._is_one_too_many(address):
            address = None
        if address is None and self._gateway is not None:
            account = f"{route.name}:{route.uid}:{direction}"
            return self._gateway.budget(account, limit, route.limits.unit_s)
        if address is None:
            return LocalBudget(limit, route.limits.unit_s, now)
        bucket = redis_script.bucket(route.model, route.name)
        return self._source(address).budget(f"{bucket}:{direction}", limit, route.limits.unit_s)

    def _is_one_too_many(self, address: str) -> bool:
        """Whether an address exceeds the limit. Hosts named by the operator have their own limit."""
        if address in self._by_address:
            return False
        named = len(self._by_address.keys() & self._named)
        count = named if self._is_named(address) else len(self._by_address) - named
        is_beyond = count >= MAX_ADDRESSES
        if is_beyond and not self._is_beyond:
            log.warning("%s and maybe others are limited by each gateway alone: %s", address, BEYOND)
        self._is_beyond = is_beyond or self._is_beyond
        return is_beyond

    def _is_named(self, address: str) -> bool:
        try:
            return Address.parse(address).host in self._settings.redis_hosts
        except ValueError:
            return False

    def _source(self, address: str) -> LeaseSource:
        source = self._by_address.get(address)
        if source is None:
            transport = _transport(address, self._settings)
            if self._is_named(address):
                self._named.add(address)
            source = self._by_address[address] = self._started(
                f"redis://{address}", transport, self._settings.is_strict
            )
        return source

    def _started(self, name: str, transport: Transport, is_strict: bool) -> LeaseSource:
        wait_s = self._settings.wait_s
        source = LeaseSource(name, transport, self._loop, self._rng, wait_s, is_strict, self._expected)
        source.start()
        return source

    @property
    def _expected(self) -> int:
        """Gateway processes to assume until Redis reports the number."""
        return max(self._gateways, self._settings.gateways)

    def there_are(self, gateways: int) -> None:
        """Apply the number of gateway processes, including this one."""
        self._gateways = gateways
        for source in self._by_address.values():
            source.expect(self._expected)

    def trouble(self, address: str, bucket: str) -> str | None:
        """Why the Redis of this address does not count for a bucket; "" if it does, None if unknown."""
        source = self._by_address.get(address)
        if source is None and self._is_beyond:
            return BEYOND
        if source is None or not (source.trouble or source.exchanges.count):
            return None
        accounts = {f"{bucket}:{direction}" for direction in DIRECTIONS}
        return public(source.trouble or source.refusal(accounts))

    def all(self) -> list[LeaseSource]:
        found = list(self._by_address.values())
        return found if self._gateway is None else [self._gateway, *found]

    def keep(self, limits: Iterable[RouteLimit]) -> None:
        """Keep only the budgets of these limits."""
        sources = self.all()
        if sources:
            used = {account.budget for limit in limits for account in limit.accounts()}
            for source in sources:
                source.keep(used)

    def unused(self) -> list[LeaseSource]:
        """Remove and return unused sources; the caller closes them."""
        gone = {address: source for address, source in self._by_address.items() if source.is_unused}
        for address in gone:
            del self._by_address[address]
            self._named.discard(address)
        return list(gone.values())

    def change(self, settings: Settings) -> None:
        self._settings = settings
        for source in self.all():
            is_strict = settings.is_strict and source is not self._gateway
            source.change(settings.wait_s, is_strict)

    def wait(
        self, limit: RouteLimit, input_tokens: int, output_tokens: int, then: Callable[[], None]
    ) -> Waiter | None:
        """Claim the tokens that a request needs and that are not on lease. None if waiting is useless,
        because they are used up or counted locally."""
        now = self._loop.time()
        found: Waiter | None = None
        for account, tokens, least in (
            (limit.input, input_tokens, input_tokens),
            (limit.output, max(output_tokens, 1), 1),
        ):
            budget = account.budget if account is not None else None
            if not isinstance(budget, LeasedBudget) or not budget.lacks(least, now):
                continue
            if budget.is_parted and budget.wait_s(least, now) <= 0.0:
                continue  # its local share has enough
            source = self._of(budget)
            # Both are claimed at once, and one waiter wakes the request.
            waiter = source.ask(budget, tokens, then, least, found) if source is not None else None
            if waiter is None:
                if found is not None:
                    found.cancel()
                return None
            found = waiter
        return found

    def _of(self, budget: LeasedBudget) -> LeaseSource | None:
        return next((source for source in self.all() if budget in source), None)

    async def close(self) -> None:
        await asyncio.gather(*(source.close() for source in self.all()))

    def statistics(self) -> list[dict[str, Any]]:
        return [source.statistics() for source in self.all()]


def _transport(address: str, settings: Settings) -> Transport:
    try:
        parsed = Address.parse(address)
    except ValueError as error:
        return NoTransport(str(error))
    if settings.redis_hosts and parsed.host not in settings.redis_hosts:
        return NoTransport(f"{parsed.host} is not among the rate_limits.redis_hosts that routes may name")
    # Anyone who may write a ModelRoute can name a host: only hosts that the operator named get the
    # credentials.
    is_named = parsed.host in settings.redis_hosts
    access = RedisAccess(
        username=(os.environ.get(USERNAME) or None) if is_named else None,
        password=(os.environ.get(PASSWORD) or None) if is_named else None,
        is_anonymous=not is_named,
        tls=settings.redis_tls,
        ca_file=settings.redis_ca_file,
    )
    return RedisTransport(parsed, access)
