"""Kubernetes' protobuf form of request bodies: decides which object the bytes of a client in Go mean.

It is given a body of `application/vnd.kubernetes.protobuf`, hands on the object as its JSON would be, and
refuses what it does not know rather than losing it. Answers are never protobuf.
"""

from headgate.apiserver.protobuf.decoding import MEDIA_TYPE, ProtobufError, UnknownKindError, decode

__all__ = ["MEDIA_TYPE", "ProtobufError", "UnknownKindError", "decode"]
