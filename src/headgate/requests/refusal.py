"""Why a request is not served, with status, code and body of the response; the same value in every shell.

Bodies have OpenAI's format `{"error": {"message", "type", "param", "code"}}`, or Anthropic's.
"""

from __future__ import annotations

import msgspec

from headgate.flow.queue import Reason

DROPPED_HEADERS = (b"x-headgate-dropped-reason", b"x-llm-d-request-dropped-reason")

_ANTHROPIC_PATH = b"/v1/messages"

START_FAILED = "start_failed"
STARTING = "model_starting"
"""Codes while a pool that requests start has no endpoint."""

_ANTHROPIC_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""From Anthropic's API. Its type for other 4xx is "invalid_request_error", and for other 5xx "api_error"."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request is not served. `code` identifies the reason in metrics and logs."""

    status: int
    type: str
    code: str
    message: str
    param: str | None = None
    retry_after_s: int | None = None
    lines: bytes = b""
    """Additional header lines, each with its CRLF."""
    logged: str = ""
    """Logged instead of the message: with addresses and names that clients must not see."""
    is_for_anthropic: bool = False
    """Whether the client expects Anthropic's format at any path."""

    @property
    def log_message(self) -> str:
        return self.logged or self.message

    @classmethod
    def bad_request(cls, message: str, *, code: str, param: str | None = None, status: int = 400) -> Refusal:
        return cls(status=status, type="invalid_request_error", code=code, message=message, param=param)

    @classmethod
    def forbidden_model(cls, tenant: str, model: str) -> Refusal:
        """The tenant may not use the model, whether or not it exists."""
        return cls(
            status=403,
            type="permission_error",
            code="model_not_allowed",
            message=f"the tenant {tenant[:256]!r} may not use the model {model[:256]!r}",
            param="model",
        )

    @classmethod
    def method_not_allowed(cls, message: str, allowed: bytes, *, code: str = "method_not_allowed") -> Refusal:
        return cls(
            status=405,
            type="invalid_request_error",
            code=code,
            message=message,
            lines=b"allow: %b\r\n" % allowed,
        )

    @classmethod
    def missing(cls, message: str, *, code: str) -> Refusal:
        """The requested model is not available."""
        return cls.bad_request(message, code=code, param="model", status=404)

    @classmethod
    def model_not_found(cls, model: str, *, is_proxied: bool = False) -> Refusal:
        """`is_proxied`: behind another proxy, where the list of models is that of a single engine."""
        hint = "GET /v1/models lists those that are served"
        if is_proxied:
            hint = "the name must be that of an InferenceModel or InferenceModelRewrite of the pool"
        return cls.missing(f"no route serves the model {model[:256]!r}: {hint}", code="model_not_found")

    @classmethod
    def not_ready(cls) -> Refusal:
        """What models and pools there are is not known yet."""
        return cls.unavailable("the gateway has not loaded its routes yet", code="not_ready")

    @classmethod
    def no_rule_matches(cls, model: str) -> Refusal:
        """Reveals nothing about the rules: what they match may be a secret between operator and client."""
        why = f"the model {model[:256]!r} is served, but not for this request: no rule of its routes matches"
        return cls.missing(f"{why}; check the path, the headers and the body", code="model_not_found")

    @classmethod
    def unavailable(
        cls,
        message: str,
        *,
        code: str,
        retry_after_s: int = 1,
        logged: str = "",
        dropped: Reason | None = None,
    ) -> Refusal:
        """`dropped`: the reason in the headers if no endpoint can serve the request."""
        return cls(
            status=503,
            type="service_unavailable_error",
            code=code,
            message=message,
            retry_after_s=retry_after_s,
            logged=logged,
            lines=dropped_lines(dropped) if dropped is not None else b"",
        )

    @classmethod
    def saturated(cls, message: str, *, code: str, retry_after_s: int = 1) -> Refusal:
        return cls(
            status=429,
            type="rate_limit_error",
            code=code,
            message=message,
            retry_after_s=retry_after_s,
            lines=dropped_lines("rejected-saturated"),
        )

    @classmethod
    def broken(cls, message: str) -> Refusal:
        """A bug of the gateway, or of a plugin."""
        return cls(status=500, type="server_error", code="internal_error", message=message)

    @classmethod
    def upstream(cls, message: str, *, code: str, status: int = 502, logged: str = "") -> Refusal:
        return cls(status=status, type="upstream_error", code=code, message=message, logged=logged)

    def body_at(self, target: bytes) -> bytes:
        """The body of the response, in the format of the target's API."""
        return self.body(anthropic=self.is_for_anthropic or target.startswith(_ANTHROPIC_PATH))

    def body(self, *, anthropic: bool) -> bytes:
        if anthropic:
            other = "api_error" if self.status >= 500 else "invalid_request_error"
            kind = _ANTHROPIC_TYPES.get(self.status, other)
            return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": self.message}})
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return msgspec.json.encode({"error": error})


def dropped_lines(reason: Reason) -> bytes:
    """The header lines with the reason why a request was dropped."""
    return b"".join(b"%b: %b\r\n" % (name, reason.encode()) for name in DROPPED_HEADERS)
