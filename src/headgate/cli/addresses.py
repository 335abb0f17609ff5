"""URLs of servers on this machine."""

_LOOPBACK_OF = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - nothing is bound


def url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def local_host(host: str) -> str:
    """The address by which a server that listens on `host` is reached from this machine."""
    return _LOOPBACK_OF.get(host, host)


def local_url(host: str, port: int) -> str:
    """Where a server that listens on `host` is reached from this machine."""
    return url(local_host(host), port)
