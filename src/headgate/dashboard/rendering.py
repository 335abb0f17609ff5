"""Renders pages from templates that escape all values, with headers that forbid whatever is not the page's
own."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from headgate.dashboard.sources import Pages

HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Of each response. Scripts and styles come from files only, so that a value that were not escaped could do
no more than look odd."""
NOTHING: Final = "-"


def _number(value: float | None) -> str:
    """With as many digits as people compare, and thousands apart."""
    if value is None:
        return NOTHING
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _seconds(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return NOTHING
    if value < 0.0005:
        return "0 s"
    if value < 1:
        return f"{value * 1e3:.0f} ms"
    if value < 120:
        return f"{value:.3g} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.0f} h"


def _percent(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.0%}"


def _clock(at: float) -> str:
    """The time of day, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(at))


def environment() -> jinja2.Environment:
    """The templates of this room. An unknown name in one is an error, not an empty text."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("headgate.dashboard"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.filters.update(number=_number, seconds=_seconds, percent=_percent, clock=_clock)
    return found


_templates: Final = environment()


NAVIGATION: Final = (
    ("/dashboard", "Fleet"),
    ("/dashboard/requests", "Requests"),
    ("/dashboard/routes", "Routes"),
    ("/dashboard/queues", "Queues"),
    ("/dashboard/models", "Models"),
)


def page(
    request: Request,
    template: str,
    title: str,
    facts: Mapping[str, Any],
    sources: Sequence[Pages[Any]],
    **values: Any,
) -> Response:
    """A page, or if a script asks for news, only its live part. `sources`: what it was made of."""
    is_live = request.headers.get("hx-request") == "true"
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    text = _templates.get_template(template).render(
        values,
        layout="live.html" if is_live else "page.html",
        title=title,
        here=here,
        facts=facts,
        can_sign_out=bool(request.scope.get("signed_in")),
        navigation=NAVIGATION,
        silent=sorted({each for source in sources for each in source.silent}),
        answered=min((len(source.of_workers) for source in sources), default=0),
        at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )
    return HTMLResponse(text, 200, {**HEADERS, "cache-control": "no-store"})
