"""The events of a request whose body, a long form, is sent to the endpoint as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.requests import fallen, settlement, states, way
from headgate.requests.deciding.decide import decide

if TYPE_CHECKING:
    from headgate.requests.bodies import large
    from headgate.requests.life import Life
    from headgate.requests.refusal import Refusal


def upload_begun(life: Life, body: large.Body, now: float) -> None:
    """The beginning of a form is there, with its model; the rest is sent as it comes."""
    life.expect("begin")
    life.decision = decide(life.plane, life.request, body, life.proxied)
    life.fallen = fallen.begun(life.decision, body)
    way.decided(life, now)


def upload_refused(life: Life, refusal: Refusal, now: float) -> None:
    """What came of the body later is invalid, or came too slowly."""
    life.expect("upload_refused")
    if life.state == states.ANSWERING:
        settlement.hang_up(life, "client_gone", now)
    else:
        settlement.refuse(life, refusal, now)
