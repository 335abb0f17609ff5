"""The error of a call."""


class CallError(Exception):
    """Why a message of one call is rejected: `status` is a gRPC status code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
