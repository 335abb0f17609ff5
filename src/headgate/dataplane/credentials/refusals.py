"""Denials as responses, in the form of OpenAI's API or of Anthropic's."""

from __future__ import annotations

import msgspec

from headgate.auth.outcome import MISSING, Denial
from headgate.requests.client import Header
from headgate.requests.refusal import Refusal

_ASKED = b'www-authenticate: Bearer realm="headgate"\r\n'
_ASKED_AGAIN = b'www-authenticate: Bearer realm="headgate", error="invalid_token"\r\n'
_TYPES = {401: "invalid_request_error", 403: "permission_error", 503: "service_unavailable_error"}
"""OpenAI's API has the first for a wrong key."""
_ANTHROPIC = b"anthropic-version"
"""A header that Anthropic's clients send, and no others."""


def refusal(denial: Denial, headers: list[Header]) -> Refusal:
    """The response for a client that is not admitted."""
    status = denial.status
    lines = b""
    if status == 401:
        lines = _ASKED if denial is MISSING else _ASKED_AGAIN
    made = Refusal(
        status=status,
        type=_TYPES[status],
        code=denial.code,
        message=denial.message,
        lines=lines,
        retry_after_s=1 if status == 503 else None,
    )
    return in_form_of(made, headers)


def in_form_of(made: Refusal, headers: list[Header]) -> Refusal:
    """In Anthropic's form for its clients, whatever the path."""
    if any(name == _ANTHROPIC for name, _ in headers):
        return msgspec.structs.replace(made, is_for_anthropic=True)
    return made
