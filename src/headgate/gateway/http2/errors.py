"""What an endpoint does that no HTTP/2 server may do, or that leaves a request without an answer."""


class Http2Error(ConnectionError):
    """Why the connection cannot be used any more, in words for whoever sent the request."""


class NotTakenError(Http2Error):
    """The endpoint did not look at the request, which may be sent again as if it never had been."""
