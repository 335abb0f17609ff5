"""Leader election: never two leaders, whatever is slow, lost or paused; and soon another one."""

import asyncio
import contextlib

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headgate import api, apiserver, cluster
from headgate.cluster.election import Candidate, Terms

TERMS = Terms()
CANDIDATES = st.integers(0, 2)


class AnyHistory(RuleBasedStateMachine):
    """Requests take any time and may be lost, processes pause anywhere, and all see one server."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.lease, self.version = None, 0
        self.candidates = [Candidate(f"c{number}", TERMS) for number in range(3)]
        self.read = [None] * 3
        self.sent = [None] * 3
        self.late = []

    @rule(seconds=st.floats(0.0, 9.0))
    def time_passes(self, seconds):
        self.now += seconds

    @rule(who=CANDIDATES)
    def reads(self, who):
        if self.sent[who] is None:
            self.candidates[who].saw(self.lease, self.now)
            self.read[who] = self.version

    @rule(who=CANDIDATES)
    def sends(self, who):
        if self.sent[who] is None and self.read[who] is not None:
            wanted = self.candidates[who].wanted(1e9 + self.now, self.now)
            if wanted is not None:
                self.sent[who] = [wanted, self.read[who], self.now, None]

    @rule(who=CANDIDATES)
    def arrives(self, who):
        if self.sent[who] is not None and self.sent[who][3] is None:
            self.sent[who][3] = self._store(*self.sent[who][:2])

    @rule(who=CANDIDATES)
    def hears(self, who):
        if self.sent[who] is not None and self.sent[who][3] is not None:
            wanted, _, sent_at, is_stored = self.sent[who]
            if is_stored:
                self.candidates[who].wrote(wanted, sent_at, self.now)
            self.sent[who] = self.read[who] = None

    @rule(who=CANDIDATES)
    def gives_up_waiting(self, who):
        """The request may arrive later."""
        if self.sent[who] is not None:
            if self.sent[who][3] is None:
                self.late.append(self.sent[who][:2])
            self.sent[who] = self.read[who] = None

    @precondition(lambda self: self.late)
    @rule()
    def arrives_late(self):
        self._store(*self.late.pop(0))

    @rule(who=CANDIDATES)
    def releases(self, who):
        released = self.candidates[who].released()
        if released is not None:
            self._store(released, self.version if self.lease.holder_identity == f"c{who}" else -1)

    def _store(self, lease, version):
        if version != self.version:
            return False
        self.lease, self.version = lease, self.version + 1
        return True

    @invariant()
    def at_most_one_leads(self):
        assert sum(each.leads(self.now) for each in self.candidates) <= 1


TestAnyHistory = AnyHistory.TestCase


def test_another_leads_as_soon_as_the_lease_has_expired():
    """Not a retry interval later."""
    first, second = Candidate("a", TERMS), Candidate("b", TERMS)
    lease = first.wanted(1e9, 0.0)
    first.wrote(lease, 0.0, 0.1)
    second.saw(lease, 5.0)
    assert second.wanted(1e9, 5.0) is None
    assert second.wait_s(5.0) == TERMS.retry_s
    assert second.wait_s(19.5) == pytest.approx(0.5)
    assert second.wanted(1e9 + 20, 20.0).holder_identity == "b"


def test_a_released_lease_is_free_at_once():
    first, second = Candidate("a", TERMS), Candidate("b", TERMS)
    first.wrote(first.wanted(1e9, 0.0), 0.0, 0.1)
    released = first.released()
    assert not first.leads(0.2)
    second.saw(released, 0.3)
    assert second.wanted(1e9, 0.3).lease_transitions == 1


@pytest.mark.parametrize("terms", [{"retry_s": 10.0}, {"lead_s": 15.0}, {"retry_s": 0.0}])
def test_terms_that_do_not_work_are_refused(terms):
    with pytest.raises(ValueError, match="must be shorter than lead"):
        cluster.Election(None, "x", "default", terms=Terms(**terms))


@contextlib.asynccontextmanager
async def running(*elections):
    tasks = [asyncio.create_task(each.run()) for each in elections]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_next_leads_when_the_leader_ends(tmp_path):
    """It releases the Lease; the other need not wait until that expires."""
    terms = Terms.of(60.0)
    async with (
        apiserver.running(apiserver.Config(tmp_path, port=0)) as server,
        cluster.Client.from_kubeconfig(server.kubeconfig) as client,
    ):
        first, second = (cluster.Election(client, "e", "default", terms=terms) for _ in range(2))
        async with running(first) as (task,):
            await asyncio.wait_for(first.acquired(), 30.0)
            async with running(second):
                stored = await client.get(api.Lease, "e", "default")
                assert stored.spec.holder_identity == first.identity
                task.cancel()
                await asyncio.wait({task})
                assert not first.is_held()
                await asyncio.wait_for(second.acquired(), 30.0)
        stored = await client.get(api.Lease, "e", "default")
        assert stored.spec.holder_identity == ""
