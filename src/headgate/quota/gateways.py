"""The gateway processes that share limits, and their problems, exchanged through one Lease per process.

A Lease is renewed every ten seconds, and at once when its content changes. A Lease without renewal for thirty
seconds belongs to a process that is gone; clocks need not agree on that, as each process watches for changes.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from headgate import api, cluster
from headgate.api import marks

LABEL = f"{marks.DOMAIN}counts-limits"
"""The label's value: the namespaces whose limits it shares,"""
ALL = "All"
"""or this for all of them, which is not a valid name of one."""
PROBLEMS = f"{marks.DOMAIN}limits"
"""Annotation: a JSON object of the process's problems by bucket; an empty text means no problem."""
FIELD_MANAGER = "headgate-gateway"
RENEW_S = cluster.Presence.RENEW_S
LOOK_S = 5.0
GONE_S = cluster.Presence.GONE_S
FORGET_S = 300.0
"""The Lease of a process that is gone is deleted after this."""
MAX_BUCKETS = 200
"""Buckets reported in a Lease."""
MAX_LABEL_CHARACTERS = 63
MAX_OF_HOST = 63
"""Characters of a host name; a Pod's name, whose end makes it unique, is not longer."""
MAX_CHARACTERS = 300
"""Characters of one problem."""

Problems = Mapping[str, str]
_NOT_OF_NAMES = re.compile(r"[^a-z0-9-]+")


class Gateways:
    """The processes with a Lease in the connection's namespace that follow the same routes. Methods raise
    cluster.ApiError if the server denies access."""

    def __init__(
        self,
        client: cluster.Client,
        host: str,
        process: int,
        namespaces: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`namespaces`: those whose routes it follows; all if there are none."""
        host = _NOT_OF_NAMES.sub("-", host.lower()).strip("-")[:MAX_OF_HOST]
        self.me = f"{host}-{process}".strip("-")
        label = LABEL, scope_of(namespaces)
        self._presence = cluster.Presence(client, f"headgate-gateway-{self.me}", label, FIELD_MANAGER, clock)
        self._clock = clock
        self._reported: Problems = {}
        self._renewed_at = -RENEW_S
        self._looked_at = -LOOK_S
        self._live: dict[str, Problems] = {}

    async def report(self, problems: Problems) -> None:
        """Report this process's problems, unless the Lease is up to date."""
        problems = {key: why[:MAX_CHARACTERS] for key, why in sorted(problems.items())[:MAX_BUCKETS]}
        now = self._clock()
        if problems == self._reported and now - self._renewed_at < RENEW_S:
            return
        await self._presence.write(self.me, {PROBLEMS: msgspec.json.encode(problems).decode()})
        self._reported, self._renewed_at = problems, now

    async def all(self) -> Mapping[str, Problems]:
        """Each process's report by name, as of a few seconds ago."""
        now = self._clock()
        if now - self._looked_at >= LOOK_S:
            leases = await self._presence.live()
            self._looked_at = now
            self._live = {
                lease.spec.holder_identity or lease.metadata.name: _problems_of(lease) for lease in leases
            }
        # This process knows its own report.
        return {**self._live, self.me: self._reported}

    async def forget_gone(self) -> None:
        """Delete the Leases of processes that are long gone; one process should call this."""
        await self._presence.delete_silent(FORGET_S)


def scope_of(namespaces: Sequence[str]) -> str:
    """The label's value for these namespaces, in any order: equal for the same ones only."""
    text = "_".join(sorted(set(namespaces))) or ALL  # no name of a namespace has an underscore
    if len(text) <= MAX_LABEL_CHARACTERS:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: MAX_LABEL_CHARACTERS - 18]}__{digest}"


def _problems_of(lease: api.Lease) -> Problems:
    try:
        return msgspec.json.decode(
            (lease.metadata.annotations or {}).get(PROBLEMS, "{}"), type=dict[str, str]
        )
    except (msgspec.DecodeError, RecursionError):
        return {}
