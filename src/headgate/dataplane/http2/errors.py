"""Errors of HTTP/2 connections: protocol violations, and requests that get no response."""


class Http2Error(ConnectionError):
    """Why the connection cannot be used any more, in words for the log."""


class NotTakenError(Http2Error):
    """The endpoint did not process the request, so it may be sent again."""
