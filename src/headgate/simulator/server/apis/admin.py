"""What the simulator adds: settings of failures that change while it runs, and what was seen."""

import msgspec

from headgate.simulator.model import ConfigError
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.failures.failures import read_changes
from headgate.simulator.server.instance import Instance


class Admin:
    """Handlers for /admin."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    async def config(self, exchange: Exchange) -> None:
        """GET reads the settings, POST changes those that it names."""
        match exchange.method:
            case "GET":
                await self._read(exchange)
            case "POST":
                await self._change(exchange)
            case other:
                raise ApiError(405, f"{other} is not allowed here, GET and POST are")

    async def _read(self, exchange: Exchange) -> None:
        await exchange.answer_json(self._instance.failures.settings)

    async def _change(self, exchange: Exchange) -> None:
        """The fields that are given change together, or none does."""
        changes, failures = await exchange.read_body(), self._instance.failures
        try:
            settings = read_changes(changes, failures.settings)
            failures.configure(settings)
        except (msgspec.DecodeError, UnicodeDecodeError, ConfigError) as error:
            raise ApiError(400, str(error)) from error
        await exchange.answer_json(settings)

    async def protocol(self, exchange: Exchange) -> None:
        """What was seen of prefill/decode pairs, and what of it was against the protocol."""
        await exchange.answer_json(self._instance.transfers.statistics())
