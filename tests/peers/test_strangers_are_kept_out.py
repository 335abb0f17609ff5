"""Only processes that know the token are members, and without one only those of this machine."""

import asyncio
import struct

import msgspec
import pytest
from peer_world import POD, Member, until

from headgate import peers
from headgate.fleet import sharing
from headgate.peers import settings, wire
from headgate.peers.listener import MAX_HANDSHAKES


@pytest.fixture
def token(tmp_path):
    def write(text, name="token"):
        path = tmp_path / name
        path.write_bytes(text)
        return str(path)

    return write


async def test_the_same_token_connects(member, token):
    """White space around it does not count."""
    first = await member(token_file=token(b"a token of enough bytes"))
    second = await member(first.address, token_file=token(b"a token of enough bytes\n", "other"))
    second.book()
    await until(lambda: first.load.requests == 1)


@pytest.mark.parametrize("other", [None, b"another token of enough bytes"])
async def test_another_token_does_not(member, token, other, caplog):
    """Neither end takes anything from the other; the log says why, once."""
    first = await member(token_file=token(b"a token of enough bytes"))
    second = await member(first.address, token_file=other and token(other, "other"))
    second.book()
    await until(lambda: first.peers.statistics()["refused"] > 1 or "another token" in caplog.text)
    assert first.load.requests == 0
    assert "another token" in caplog.text


async def test_beyond_this_machine_a_token_is_required(token):
    """Settings that would let anybody report are refused, with the fix."""
    for wrong in ({"host": "0.0.0.0"}, {"addresses": ("10.0.0.7:9004",)}, {"addresses": ("picker-1:9004",)}):
        with pytest.raises(peers.ConfigurationError, match=r"peers\.token_file"):
            Member(**wrong)
    Member(host="0.0.0.0", token_file=token(b"a token of enough bytes"))


async def test_tokens_and_addresses_are_checked(tmp_path, token):
    """Each error names the setting, the value and the fix."""
    with pytest.raises(peers.ConfigurationError, match="cannot read"):
        Member(token_file=str(tmp_path / "none"))
    with pytest.raises(peers.ConfigurationError, match="5 bytes"):
        Member(token_file=token(b"short"))
    with pytest.raises(peers.ConfigurationError, match="4097 bytes"):
        Member(token_file=token(b"x" * 5000))
    for wrong in ("nonsense", "127.0.0.1:", "127.0.0.1:99999", ":1"):
        with pytest.raises(peers.ConfigurationError, match="host:port"):
            settings.split(wrong)
    assert settings.split("[::1]:9004") == ("::1", 9004)


async def test_a_wildcard_is_no_address(token):
    """A Lease needs an address that others can connect to."""
    found = Member(host="0.0.0.0", token_file=token(b"a token of enough bytes"))
    with pytest.raises(peers.ConfigurationError, match=r"peers\.advertise"):
        _ = found.address


async def test_addresses_from_leases_are_checked(member):
    """Without a token, no address of another machine is tried, whatever a Lease says."""
    first = await member()
    first.peers.found(["10.0.0.1:9004", "nonsense", "127.0.0.1:9"])
    assert list(first.peers.links) == ["127.0.0.1:9"]


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("!I", 0xFFFFFFFF),
        struct.pack("!I", 5) + b"\x00" * 5,
        wire.framed(msgspec.msgpack.encode([99, "m", bytes(32)])),
        wire.framed(msgspec.msgpack.encode([wire.VERSION, "m", b"short"])),
        b"",
    ],
    ids=["http", "too long", "zeros", "other version", "short proof", "nothing"],
)
async def test_anything_else_is_closed(member, sent):
    """A stranger gets its connection closed, and the member goes on."""
    first = await member()
    host, port = settings.split(first.address)
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(sent)
    if not sent:
        writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    second = await member(first.address)
    second.book()
    await until(lambda: first.load.requests == 1)


async def test_a_report_that_is_none_ends_the_connection(member):
    """A member that sends garbage after its handshake is forgotten."""
    first = await member()
    host, port = settings.split(first.address)
    reader, writer = await asyncio.open_connection(host, port)
    own = wire.Identity("other", first.peers.own.key, True, 0)
    session = await wire.dial(reader, writer, own)
    assert session.member == first.peers.own.member
    writer.write(session.seal.framed(b"garbage"))
    assert await reader.read() == b""
    assert first.peers.statistics()["refused"] == 1
    writer.close()


def report(number):
    """One request of another member, on the endpoint that all have."""
    address = sharing.reports.Address(POD.name, POD.host, POD.port)
    return sharing.encode(sharing.Report(number, True, [address], [sharing.Load(0, number)]))


@pytest.mark.parametrize("change", ["a bit", "repeated", "left out", "without a seal"])
async def test_reports_cannot_be_changed_on_the_way(member, change):
    """One that was changed, repeated or left out ends the connection."""
    first = await member()
    reader, writer = await asyncio.open_connection(*settings.split(first.address))
    own = wire.Identity("other", first.peers.own.key, True, 0)
    seal = (await wire.dial(reader, writer, own)).seal
    writer.write(seal.framed(report(1)))
    await until(lambda: first.load.requests == 1)
    if change == "a bit":
        sent = bytearray(seal.framed(report(2)))
        sent[-1] ^= 1
    elif change == "repeated":
        again = seal.framed(report(2))
        writer.write(again)
        await until(lambda: first.load.requests == 2)
        sent = again
    elif change == "left out":
        seal.framed(report(2))
        sent = seal.framed(report(3))
    else:
        sent = wire.framed(report(2))
    writer.write(sent)
    assert await reader.read() == b""
    assert first.peers.statistics()["refused"] == 1
    await until(lambda: first.load.requests == 0)
    writer.close()


async def test_strangers_do_not_keep_members_out(member, monkeypatch):
    """However many connections they hold: the oldest without a proof ends for a new one."""
    monkeypatch.setattr(wire, "HANDSHAKE_S", 3600.0)  # none of them ends by itself
    first = await member()
    host, port = settings.split(first.address)
    held = [await asyncio.open_connection(host, port) for _ in range(MAX_HANDSHAKES + 40)]
    second = await member(first.address)
    second.book()
    await until(lambda: first.load.requests == 1)
    assert [await reader.read() for reader, _ in held[:10]] == [b""] * 10
    for _, writer in held:
        writer.close()
