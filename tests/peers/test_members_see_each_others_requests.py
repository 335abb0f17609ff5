"""Members that are connected know each other's requests in flight, whatever the network does."""

import asyncio
import random

import pytest
from peer_world import until

from headgate import peers, telemetry
from headgate.fleet import sharing
from headgate.peers import wire


async def test_requests_appear_and_end(member):
    """A request of one member counts in the other's ledger until it ends, and wakes its queues."""
    first = await member()
    second = await member(first.address)
    await until(lambda: second.peers.statistics()["connected"] == 1)
    booking = second.book()
    await until(lambda: first.load.requests == 1)
    assert first.load.own_requests == 0
    assert first.load.estimator.queue_s(0.0) > 0.0
    booking.end(asyncio.get_running_loop().time())
    await until(lambda: first.load.requests == 0)
    assert first.wakes > 0
    first.ledger.validate()


async def test_queues_are_reported_until_the_member_ends(member):
    """What a member reports of its queues reaches the others, and is dropped with it."""
    first = await member()
    second = await member(first.address)
    name = second.peers.own.member
    await until(lambda: first.heard.get(name) == b"")
    second.queues = b"two requests"
    await until(lambda: first.heard.get(name) == b"two requests")
    await second.stop()
    await until(lambda: not first.heard)


async def test_work_from_before_the_connection_is_known(member):
    """A member that joins gets all that the others have in flight, and their recent prompts."""
    first = await member()
    booking = first.book()
    second = await member()
    first.peers.found([second.address])
    await until(lambda: second.load.requests == 1)
    first.prefixes.add([1, 2, 3], first.load, 0.0)
    await until(lambda: second.prefixes.matched([1, 2, 3], [second.load]) == [3])
    third = await member()
    first.peers.found([second.address, third.address])
    await until(lambda: third.prefixes.matched([1, 2, 3], [third.load]) == [3])
    booking.end(0.0)


async def test_a_member_that_ends_takes_its_requests_along(member):
    """Its connection ends, and so does its share."""
    first = await member()
    second = await member(first.address)
    second.book()
    await until(lambda: first.load.requests == 1)
    await second.stop()
    await until(lambda: first.load.requests == 0)
    assert first.peers.statistics()["members"] == 0


async def test_a_member_that_hangs_is_forgotten(member):
    """A connection that stays open without reports counts for two seconds."""
    first = await member()
    second = await member(first.address)
    second.book()
    await until(lambda: first.load.requests == 1)
    second.peers.report = lambda: None  # as if its event loop were stuck
    before = asyncio.get_running_loop().time()
    await until(lambda: first.load.requests == 0)
    assert asyncio.get_running_loop().time() - before > sharing.SILENT_S / 2


async def test_a_member_connects_again(member, unused_tcp_port):
    """It tries again until the other one is there, also after that has restarted."""
    second = await member(f"127.0.0.1:{unused_tcp_port}")
    second.book()
    first = await member(port=unused_tcp_port)
    await until(lambda: first.load.requests == 1)
    await first.stop()
    again = await member(port=unused_tcp_port)
    await until(lambda: again.load.requests == 1)


async def test_the_own_address_may_be_in_the_list(member, unused_tcp_port):
    """All members can have the same list."""
    first = await member(f"127.0.0.1:{unused_tcp_port}", port=unused_tcp_port)
    link = first.peers.links[f"127.0.0.1:{unused_tcp_port}"]
    await until(lambda: link.is_self)
    first.book()
    await asyncio.sleep(0.1)
    assert first.load.requests == 1
    assert first.peers.statistics()["members"] == 0


async def test_nobody_listens_costs_nothing(member):
    """Without a connected peer, prompts are not recorded for anybody."""
    first = await member("127.0.0.1:9")
    await asyncio.sleep(0.1)
    assert first.prefixes.journal is None


async def test_metrics_show_the_exchange(member):
    """Peers, their silence and reports are on the metrics page; zeros without an exchange."""
    first = await member()
    second = await member(first.address)
    await until(lambda: first.peers.statistics()["received"] > 0)
    registry = telemetry.Registry()
    peers.add_metrics(registry, first.peers, asyncio.get_running_loop().time, "headgate_gateway")
    page = registry.page("")[0].decode()
    assert "headgate_gateway_peers 1.0" in page
    assert 'headgate_gateway_peer_reports_total{result="received"}' in page
    assert second.peers.statistics()["sent"] > 0
    registry = telemetry.Registry()
    peers.add_metrics(registry, None, asyncio.get_running_loop().time, "headgate_gateway")
    assert "headgate_gateway_peers 0.0" in registry.page("")[0].decode()


class Network:
    """A proxy that delays, garbles or cuts what goes through."""

    def __init__(self, to):
        self.to = to
        self.garbles = self.cuts = False
        self.delay_s = 0.0
        self.rng = random.Random(3)
        self.server = None
        self.writers = []

    async def start(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    def close(self):
        self.server.close()
        for writer in self.writers:
            writer.transport.abort()

    async def _serve(self, reader, writer):
        host, port = self.to.rsplit(":", 1)
        there, to = await asyncio.open_connection(host, int(port))
        self.writers += [writer, to]
        await asyncio.gather(self._pass(reader, to), self._pass(there, writer))

    async def _pass(self, reader, writer):
        try:
            while data := await reader.read(1000):
                await asyncio.sleep(self.delay_s * self.rng.random())
                if self.cuts and self.rng.random() < 0.2:
                    break
                if self.garbles and self.rng.random() < 0.2:
                    data = self.rng.randbytes(len(data))
                writer.write(data)
        except OSError:
            pass
        writer.transport.abort()


@pytest.mark.parametrize("fault", ["garbles", "cuts", "delay_s"])
async def test_faults_of_the_network_heal(member, fault):
    """Reports that are delayed, garbled or cut off end nothing; the figures are right again soon after."""
    first = await member()
    network = Network(first.address)
    second = await member(await network.start())
    try:
        await until(lambda: second.peers.statistics()["connected"] == 1)
        setattr(network, fault, 0.2 if fault == "delay_s" else True)
        open_ = []
        for _ in range(150):
            open_.append(second.book())
            if len(open_) > 3:
                open_.pop(0).end(asyncio.get_running_loop().time())
            await asyncio.sleep(0.01)
            first.ledger.validate()
            assert first.load.requests <= 5
        setattr(network, fault, 0.0 if fault == "delay_s" else False)
        await until(lambda: first.load.requests == 3)
        assert not first.running.done()
        assert not second.running.done()
    finally:
        network.close()


async def test_a_peer_that_reads_nothing_bounds_the_memory(member):
    """Reports to a peer that has stopped reading are dropped, and counted."""
    second, is_over = await member(), asyncio.Event()

    async def stuck(reader, writer):
        await wire.accept(reader, writer, wire.Identity("stuck", second.peers.own.key, True, 0))
        writer.transport.pause_reading()
        await is_over.wait()
        writer.transport.abort()

    server = await asyncio.start_server(stuck, "127.0.0.1", 0)
    second.peers.found([f"127.0.0.1:{server.sockets[0].getsockname()[1]}"])
    link = next(iter(second.peers.links.values()))
    await until(lambda: link.is_up)
    for _ in range(200):
        link.send(bytes(100_000))
    assert link.dropped > 0
    is_over.set()
    await until(lambda: not link.is_up)
    server.close()
