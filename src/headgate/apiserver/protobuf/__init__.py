"""Kubernetes' protobuf encoding of request bodies, which Go clients use.

Decodes a body of `application/vnd.kubernetes.protobuf` to the object that its JSON would give, and rejects
anything unknown rather than losing it. Responses are never protobuf.
"""

from headgate.apiserver.protobuf.decoding import MEDIA_TYPE, ProtobufError, UnknownKindError, decode

__all__ = ["MEDIA_TYPE", "ProtobufError", "UnknownKindError", "decode"]
