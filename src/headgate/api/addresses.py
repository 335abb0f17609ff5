"""Addresses of servers that run elsewhere, as the annotation of a Pod has them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Address:
    """Where a server is; without a port, whoever connects knows it."""

    host: str
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Address":
        """`host`, `host:port`, `v6`, `[v6]` or `[v6]:port`. Raises ValueError, which says what to write."""
        host, colon, port = text.strip().rpartition(":")
        if not colon or text.endswith("]") or (":" in host and not host.startswith("[")):
            host, port, colon = text.strip(), "", ""
        host = host.removeprefix("[").removesuffix("]")
        is_port = port.isascii() and port.isdecimal() and 0 < int(port) < 65536
        if not host or set(host) & set("/@? \t[]") or (colon and not is_port):
            raise ValueError(f"{text!r} is not an address; write host or host:port, without a scheme or path")
        return cls(host, int(port) if port else None)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"
