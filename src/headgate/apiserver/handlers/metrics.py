"""/metrics: what the server holds and what it has refused, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from headgate.apiserver.calls import Shared
from headgate.apiserver.storage import Store

_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Metrics:
    """The page, made when somebody asks for it."""

    store: Store
    shared: Shared

    async def page(self, request: Request) -> Response:
        shares = self.shared.shares()
        held: dict[tuple[str, ...], int] = {
            (what, user): n for what, share in shares.items() for user, n in share.by_user().items()
        }
        totals = {what: share.total for what, share in shares.items()}
        totals["requests"] = self.shared.turns.most
        lines = [
            *_metric("held", "gauge", "What users hold of what they share.", ("what", "user"), held),
            *_metric(
                "limit",
                "gauge",
                "How much of it all users together may hold.",
                ("what",),
                {(what,): total for what, total in totals.items()},
            ),
            *_metric(
                "waiting_requests",
                "gauge",
                "Requests that wait for their turn.",
                ("user",),
                {(user,): n for user, n in self.shared.turns.by_user().items()},
            ),
            *_metric(
                "rejected_total",
                "counter",
                "Requests, watches and connections that were refused or ended.",
                ("reason",),
                {(reason,): n for reason, n in self.shared.rejected.items()},
            ),
            *_metric(
                "store",
                "gauge",
                "The store: objects, their bytes, revision, commits and writes since the start.",
                ("what",),
                {(name,): n for name, n in self.store.statistics().items()},
            ),
        ]
        return PlainTextResponse("\n".join(lines) + "\n", media_type=_TYPE)


def _metric(
    name: str, kind: str, description: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], int]
) -> Iterable[str]:
    full = f"headgate_apiserver_{name}"
    yield f"# HELP {full} {description}"
    yield f"# TYPE {full} {kind}"
    for key, value in sorted(values.items()):
        # Names of users have letters, digits, '-' and '.', so nothing needs to be escaped.
        pairs = ",".join(f'{label}="{part}"' for label, part in zip(labels, key, strict=True))
        yield f"{full}{{{pairs}}} {value}"
