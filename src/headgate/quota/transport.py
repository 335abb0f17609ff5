"""The interface to remote accounts, and their responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self, TypeAlias

from headgate.flow.limits import Claim, Grant, Presence, Standing


class Unreachable(Exception):  # noqa: N818 - reads as what it says
    """The account is unreachable; the text says why."""

    @property
    def why(self) -> str:
        """The reason, possibly a `Denied`."""
        return self.args[0] if isinstance(self.args[0], str) else str(self)


class Refused(str):
    """A response instead of a grant: why this claim failed."""

    public: str
    """The part for objects. Anyone who may write a ModelRoute names the server, and must not be able to read
    there what any service in the network responds: that is only logged."""

    @classmethod
    def with_public(cls, text: str, public: str) -> Self:
        made = cls(text)
        made.public = public
        return made


class Denied(Refused):
    """A missing permission, and how to grant it."""


def public(why: str) -> str:
    """The part of a reason that objects may contain: all of it, if it is the gateway's own text."""
    return getattr(why, "public", why)


Answer: TypeAlias = Grant | Refused


class Transport(Protocol):
    """The connection to an account."""

    @property
    def notice(self) -> str:
        """A problem that does not stop claims, possibly a `Denied`; empty if there is none."""

    async def exchange(
        self, claims: Sequence[tuple[str, Claim]], presence: Presence | None
    ) -> tuple[list[Answer], Standing | None]:
        """Send claims, each with the name of its account, and perhaps the report of this process. Returns the
        responses in order, and the process's standing, None if unknown. Raises Unreachable."""

    async def close(self) -> None: ...
