"""Queries to engines besides requests, as the data plane sees them."""

from __future__ import annotations

from headgate.fleet import EndpointState
from headgate.observe.kv_events import KvEventSources
from headgate.observe.scraper import Scraper
from headgate.observe.watch import Watch
from headgate.requests.bodies.pieces import Pieces
from headgate.scheduling import Choice, Request


class Watching:
    """Reads of metrics pages, and the KV events of caches."""

    scraper: Scraper
    kv_events: KvEventSources
    """Both are set by the Shell as soon as their data plane exists."""

    def watch(self, load: EndpointState) -> Watch | None:
        return self.scraper.watch(load)

    def list_models_soon(self, load: EndpointState) -> None:
        self.scraper.list_models_soon(load)

    @property
    def tell_of_caches(self) -> bool:
        return bool(self.kv_events.sources)

    def sent(self, scheduled: Request, body: bytes | Pieces, choice: Choice, now: float) -> None:
        self.kv_events.sent(scheduled, body, choice, now)
