"""External providers: which there are, by a file of the operator, and how a request is sent to one.

Given the file's path and, for keys in Secrets, a source of objects; hands on the providers that can be used,
why others cannot, and the head of each request. Keys stay in here.
"""

from headgate.dataplane.providers.followed import GoneError, Providers

__all__ = ["GoneError", "Providers"]
