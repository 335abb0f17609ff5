"""Members find each other by Leases, and delete those of members that were killed."""

from headgate import api, apiserver, cluster
from headgate.peers import leases


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


async def test_the_lease_of_a_killed_member_is_deleted(tmp_path):
    """It counts as gone after 30 s, and some minutes later its Lease is deleted; others stay."""
    clock, found = Clock(), []
    async with (
        apiserver.running(apiserver.Config(tmp_path, port=0)) as server,
        cluster.Client.from_kubeconfig(server.kubeconfig) as client,
    ):
        first, second, killed = (
            leases.PeerLeases(client, name, f"{name}:1", ["pool"], found.append, clock)
            for name in ("first", "second", "killed")
        )
        other = leases.PeerLeases(client, "other", "other:1", ["another pool"], found.append, clock)
        for each in (killed, other, second, first):
            await each.look()
        assert found[-1] == ["killed:1", "second:1"]

        async def names():
            return sorted(each.metadata.name for each in await client.list(api.Lease, client.namespace))

        for _ in range(31):
            clock.now += 10.0
            for each in (second, first):
                await each.look()
            if clock.now < 1030.0:
                assert found[-1] == ["killed:1", "second:1"]
            else:
                assert found[-1] == ["second:1"]
        assert await names() == ["headgate-peer-first", "headgate-peer-other", "headgate-peer-second"]
