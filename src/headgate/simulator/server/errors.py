"""Refusals as vLLM words them: one JSON object with message, type, param and the status as code."""

import msgspec

_TYPES = {
    400: "BadRequestError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    408: "RequestTimeoutError",
    413: "RequestEntityTooLargeError",
    429: "RateLimitError",
    503: "ServiceUnavailableError",
}


class ApiError(Exception):
    """An answer other than 200; `param` names the field of the body that is at fault."""

    def __init__(self, status: int, message: str, *, param: str | None = None) -> None:
        self.status = status
        self.message = message
        self.param = param
        super().__init__(message)

    def body(self) -> bytes:
        kind = _TYPES.get(self.status, "InternalServerError")
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.status}
        return msgspec.json.encode({"error": error})
