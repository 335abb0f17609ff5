"""HTTP/2 to endpoints that use it, presented as an HTTP/1.1 connection.

A `Translator` sits between a socket and a protocol that speaks HTTP/1.1: written requests become streams, and
their responses arrive in the form of an HTTP/1.1 server. So the rest of the gateway is the same for both.
Imported when the first endpoint needs it.
"""
