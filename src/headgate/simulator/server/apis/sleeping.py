"""vLLM's sleep mode: an engine gives its memory back, and its cache with it."""

from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.instance import Instance


class Sleeping:
    """Handlers for /sleep, /wake_up and /is_sleeping. Without sleep mode they answer, and change nothing."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    async def sleep(self, exchange: Exchange) -> None:
        if self._instance.settings.sleep_mode:
            self._instance.ranks.sleep()
        await exchange.answer(b"")

    async def wake_up(self, exchange: Exchange) -> None:
        self._instance.ranks.asleep = False
        await exchange.answer(b"")

    async def is_sleeping(self, exchange: Exchange) -> None:
        await exchange.answer_json({"is_sleeping": self._instance.ranks.asleep})
