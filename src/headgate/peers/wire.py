"""What two members send on a connection: a handshake, then reports of the one that has connected.

Every message has its length before it. Each end proves that it knows the common secret, by an HMAC over
random numbers of both; the secret itself is never sent. Each report has an HMAC with a key of the connection
and the number of the report, so that nobody on the way can change, drop, repeat or add one. Reports are not
encrypted: a mesh or a network policy protects them where that is needed.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import struct
from typing import Annotated, NamedTuple

import msgspec

VERSION = 2
NONCE_BYTES = 32
MAX_HANDSHAKE_BYTES = 1024
MAX_REPORT_BYTES = 8 << 20
SEAL_BYTES = 32
HANDSHAKE_S = 5.0
"""Longest handshake."""

Nonce = Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
Member = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_LENGTH = struct.Struct("!I")
_encode = msgspec.msgpack.Encoder().encode


class WireError(Exception):
    """The other end is no member, or sent what no member sends."""


class Identity(NamedTuple):
    """What a process needs for handshakes."""

    member: str
    """Another one in each process."""
    key: bytes
    """The common secret."""
    is_local: bool
    """Whether all members are on this machine."""
    hashes: int
    """How it hashes prompts: the hash of a fixed text."""


class Session(NamedTuple):
    """What a handshake has agreed on."""

    member: str
    """The other end."""
    seal: Seal
    hashes: int = 0
    """How the member that has connected hashes prompts."""


class Seal:
    """The key of one connection, for the reports on it, which are numbered."""

    __slots__ = ("_key", "_number")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def framed(self, report: bytes) -> bytes:
        """The next report to send, with its length and its HMAC."""
        return framed(self._proof(report) + report)

    async def receive(self, reader: asyncio.StreamReader) -> bytes:
        """The next report. Raises WireError, OSError and EOFError."""
        data = await receive(reader, MAX_REPORT_BYTES + SEAL_BYTES)
        report = data[SEAL_BYTES:]
        if not hmac.compare_digest(data[:SEAL_BYTES], self._proof(report)):
            raise WireError("a report that is not from the member, or was changed on the way")
        return report

    def _proof(self, report: bytes) -> bytes:
        self._number += 1
        return hmac.digest(self._key, self._number.to_bytes(8, "big") + report, "sha256")


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """First, from the process that has connected."""

    version: int
    member: Member
    nonce: Nonce


class Challenge(msgspec.Struct, frozen=True, array_like=True):
    """The response to it."""

    version: int
    member: Member
    nonce: Nonce
    proof: Nonce


class Proof(msgspec.Struct, frozen=True, array_like=True):
    """Third; reports follow."""

    proof: Nonce
    hashes: int
    """A hash of a fixed text, to see whether both hash prompts alike."""


_hello = msgspec.msgpack.Decoder(Hello).decode
_challenge = msgspec.msgpack.Decoder(Challenge).decode
_proof = msgspec.msgpack.Decoder(Proof).decode


def framed(data: bytes) -> bytes:
    """A message with its length."""
    return _LENGTH.pack(len(data)) + data


async def receive(reader: asyncio.StreamReader, most: int) -> bytes:
    """The next message. Raises WireError, OSError and EOFError."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > most:
        raise WireError(f"a message of {length} bytes, of at most {most}")
    return await reader.readexactly(length)


async def dial(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, own: Identity) -> Session:
    """The handshake of the process that has connected; the other member may be itself. Raises WireError,
    OSError, EOFError and TimeoutError."""
    try:
        async with asyncio.timeout(HANDSHAKE_S):
            nonce = os.urandom(NONCE_BYTES)
            writer.write(framed(_encode(Hello(VERSION, own.member, nonce))))
            challenge = _challenge(await receive(reader, MAX_HANDSHAKE_BYTES))
            _check(challenge.version)
            both = nonce + challenge.nonce
            if not hmac.compare_digest(challenge.proof, _proven(own.key, b"listens", both)):
                raise WireError("the other process has another token")
            writer.write(framed(_encode(Proof(_proven(own.key, b"connects", both), own.hashes))))
            return Session(challenge.member, _seal(own.key, both))
    except msgspec.MsgspecError as error:
        raise WireError(f"not a member: {error}") from error


async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, own: Identity) -> Session:
    """The handshake of the process that listens. Raises WireError, OSError, EOFError and TimeoutError."""
    try:
        async with asyncio.timeout(HANDSHAKE_S):
            hello = _hello(await receive(reader, MAX_HANDSHAKE_BYTES))
            _check(hello.version)
            nonce = os.urandom(NONCE_BYTES)
            both = hello.nonce + nonce
            writer.write(
                framed(_encode(Challenge(VERSION, own.member, nonce, _proven(own.key, b"listens", both))))
            )
            proof = _proof(await receive(reader, MAX_HANDSHAKE_BYTES))
            if not hmac.compare_digest(proof.proof, _proven(own.key, b"connects", both)):
                raise WireError("the other process has another token")
            return Session(hello.member, _seal(own.key, both), proof.hashes)
    except msgspec.MsgspecError as error:
        raise WireError(f"not a member: {error}") from error


def _check(version: int) -> None:
    if version != VERSION:
        raise WireError(f"the other process speaks version {version}, this one {VERSION}")


def _proven(key: bytes, role: bytes, nonces: bytes) -> bytes:
    return hmac.digest(key, role + nonces, "sha256")


def _seal(key: bytes, nonces: bytes) -> Seal:
    """Known to both ends only, and another one for each connection."""
    return Seal(_proven(key, b"reports", nonces))
