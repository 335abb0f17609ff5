"""What brings claims to accounts that are kept elsewhere, and what may come back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self, TypeAlias

from headgate.flow.limits import Claim, Grant, Presence, Standing


class Unreachable(Exception):  # noqa: N818 - reads as what it says
    """The account cannot be asked; the text says why."""

    @property
    def why(self) -> str:
        """A `Denied` where it is that."""
        return self.args[0] if isinstance(self.args[0], str) else str(self)


class Refused(str):
    """In the place of a grant: why this one claim was not answered."""

    public: str
    """What objects may say. Whoever may write a ModelRoute names the server, and must not read there what any
    service in the network says: that is in the log only."""

    @classmethod
    def with_public(cls, text: str, public: str) -> Self:
        made = cls(text)
        made.public = public
        return made


class Denied(Refused):
    """Why: what is not permitted, and how to permit it."""


def public(why: str) -> str:
    """The part of a reason that objects may say: all of it, where it is in the gateway's own words."""
    return getattr(why, "public", why)


Answer: TypeAlias = Grant | Refused


class Transport(Protocol):
    """How an account is reached."""

    @property
    def notice(self) -> str:
        """What is amiss though claims are answered, a `Denied` where it is that; empty if nothing is."""

    async def exchange(
        self, claims: Sequence[tuple[str, Claim]], presence: Presence | None
    ) -> tuple[list[Answer], Standing | None]:
        """Answers to claims, each with the name of its account, in their order; and if this process says that
        it is there, how it stands among the others, None if that is not known. Raises Unreachable."""

    async def close(self) -> None: ...
