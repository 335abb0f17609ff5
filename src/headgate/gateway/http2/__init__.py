"""HTTP/2 towards endpoints that ask for it, behind the face of an HTTP/1.1 connection.

A `Translator` stands between a socket and whoever speaks HTTP/1.1 on it: requests that are written become
streams, and what comes back of them becomes an answer as an HTTP/1.1 server sends it. So everything else of
the gateway is the same for both. It is imported where the first endpoint asks for it.
"""
