"""Explains how the gateway would handle a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate import routing
from headgate.dataplane import explaining, trust
from headgate.dataplane.explaining import DEFAULT_PATH, Answer, Explanation
from headgate.dataplane.rules import rules_of
from headgate.gateway import refusals
from headgate.gateway.request import ParsedHead, Request
from headgate.gateway.settings import GatewaySettings
from headgate.requests.deciding.decide import decide
from headgate.requests.decision import Decision

if TYPE_CHECKING:
    from headgate.requests.bodies import large
    from headgate.requests.client import ClientRequest, Header
    from headgate.requests.refusal import Refusal

__all__ = ["DEFAULT_PATH", "GatewayForms", "View", "explain", "view_of_objects"]

View = explaining.View
_NOBODY = trust.Peer("", trust.Networks(()))


class GatewayForms:
    """`explaining.Forms` of the gateway."""

    falls_back = True

    def request(self, path: str, headers: list[Header], body: bytes, now: float) -> ClientRequest:
        host = next((value for name, value in headers if name == b"host"), b"")
        head = ParsedHead(b"POST", path.encode("latin-1", "replace"), headers, False, _NOBODY, host)
        return Request(head, body, True, now)

    def decide(
        self, known: explaining.Supposing, request: ClientRequest, read: large.Body | None
    ) -> Decision:
        return decide(known, request, read)

    def answer(self, refusal: Refusal, path: str) -> Answer:
        whole = refusals.refused(refusal, path.encode("latin-1", "replace"), keep_alive=True)
        head, _, body = whole.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")[1:]
        headers = dict(line.split(": ", 1) for line in lines)
        return Answer(status=refusal.status, headers=headers, body=body.decode())


def explain(
    view: View, path: str, headers: list[Header], body: bytes, read: large.Body | None = None
) -> Explanation:
    """See explaining.explain."""
    return explaining.explain(view, GatewayForms(), path, headers, body, read)


def view_of_objects(snapshot: routing.Snapshot, *, knows_endpoints: bool) -> View:
    """A gateway with the default settings that has just started with these objects."""
    return View.of_objects(snapshot, rules_of(GatewaySettings()), knows_endpoints=knows_endpoints)
