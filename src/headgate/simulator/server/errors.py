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


class ApiError(Exception):
    """An answer other than 200; `param` names the field of the body at fault, `kind` is the type."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, kind: str | None = None
    ) -> None:
        self.status = status
        self.message = message
        self.param = param
        self.kind = kind or _TYPES.get(status, "InternalServerError")
        super().__init__(message)

    def body(self) -> bytes:
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}
        return msgspec.json.encode({"error": error})


STOPPED = ApiError(503, "The engine stopped before the answer was complete")
