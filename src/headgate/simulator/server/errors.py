"""Refusals as vLLM words them: one JSON object with message, type, param and the status as code."""

import msgspec

_TYPES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    408: "RequestTimeoutError",
    413: "RequestEntityTooLargeError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
}
RETRY_AFTER_S = {429: 1.0}


class ApiError(Exception):
    """An answer other than 200; `param` names the field of the body at fault, `kind` is the type.
    `retry_after_s` is for the header of that name: 0 leaves it out, None is what goes with the status."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        kind: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        self.status = status
        self.message = message
        self.param = param
        self.kind = kind or _TYPES.get(status, "InternalServerError")
        self.retry_after_s = RETRY_AFTER_S.get(status, 0.0) if retry_after_s is None else retry_after_s
        super().__init__(message)

    def body(self) -> bytes:
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}
        return msgspec.json.encode({"error": error})


STOPPED = ApiError(503, "The engine stopped before the answer was complete")
