"""Request fields that say where a KV cache comes from or goes to, as the engines define them."""

from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.simulator.server.errors import ApiError

DEFAULT_BOOTSTRAP_PORT = 8998
"""SGLang's default, if a request names none."""

Port = Annotated[int, Meta(ge=1, le=65535)]
Room = Annotated[int, Meta(ge=0, le=2**63 - 1)]
BlockIds = Annotated[list[int | list[int]], Meta(max_length=1_000_000)]


class NixlParams(msgspec.Struct, frozen=True):
    """vLLM's `kv_transfer_params`, in requests and in prefill responses."""

    do_remote_decode: bool = False
    """This is the prefill; another engine will decode."""
    do_remote_prefill: bool = False
    """This is the decode; the engine named here has prefilled."""
    remote_engine_id: str | None = None
    remote_block_ids: BlockIds | None = None
    remote_request_id: str | None = None
    remote_host: str | None = None
    remote_port: Port | None = None
    tp_size: int | None = None

    def absent(self) -> list[str]:
        """Fields that a decode needs and does not have."""
        needed = ("remote_engine_id", "remote_block_ids", "remote_host", "remote_port")
        return [name for name in needed if not getattr(self, name)]

    def given(self) -> list[str]:
        """Fields of a prefill response that are set."""
        return [name for name in self.__struct_fields__ if name.startswith("remote_") and getattr(self, name)]


class Bootstrap(msgspec.Struct, frozen=True):
    """SGLang's bootstrap fields, expanded to the sequences of a request."""

    hosts: tuple[str | None, ...]
    ports: tuple[int, ...]
    rooms: tuple[int, ...]
    misfits: tuple[str, ...]
    """Fields with a list that is not as long as the number of sequences."""


Hosts = str | list[str | None]
Ports = Port | list[Port | None]
Rooms = Room | list[Room]


def spread(hosts: Hosts | None, ports: Ports | None, rooms: Rooms | None, sequences: int) -> Bootstrap | None:
    """One host, port and room for each sequence; None if the request has no room.

    A single room becomes consecutive ones, as in SGLang; a list that is too short is a 400.
    """
    if rooms is None:
        return None
    each_host = hosts if isinstance(hosts, list) else [hosts] * sequences
    each_port = ports if isinstance(ports, list) else [ports] * sequences
    each_room = rooms if isinstance(rooms, list) else [rooms + n for n in range(sequences)]
    sizes = {
        "bootstrap_host": len(each_host),
        "bootstrap_port": len(each_port),
        "bootstrap_room": len(each_room),
    }
    for name, size in sizes.items():
        if size < sequences:
            raise ApiError(400, f"{name}: has {size} elements for {sequences} sequences", param=name)
    return Bootstrap(
        hosts=tuple(each_host[:sequences]),
        ports=tuple(port or DEFAULT_BOOTSTRAP_PORT for port in each_port[:sequences]),
        rooms=tuple(each_room[:sequences]),
        misfits=tuple(name for name, size in sizes.items() if size > sequences),
    )
