"""Pods that represent an external server: with `headgate.dev/address`, a Pod needs no process."""

import asyncio
import signal

from headgate.api import marks
from headgate.api.marks import Address
from headgate.node.environment import ContainerConfigError
from headgate.node.processes import Exit


def address_of(text: str) -> Address:
    """The address in a Pod's annotation. Raises ContainerConfigError."""
    try:
        return Address.parse(text)
    except ValueError as error:
        raise ContainerConfigError(f"metadata.annotations[{marks.ADDRESS}]: {error}") from error


class ExternalServer:
    """Takes the place of a process; runs until told to stop, whatever happens to the server itself."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._stopped = asyncio.Event()

    @property
    def container_id(self) -> str:
        return f"external://{self._address}"

    def send(self, signal_number: signal.Signals) -> None:
        self._stopped.set()

    async def wait(self) -> Exit:
        await self._stopped.wait()
        return Exit(0)
