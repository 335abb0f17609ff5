"""Whatever becomes of members and of what they say, the account and its members count the same tokens."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headgate.flow.limits import Claim, Grant, LeaseAccount, LeasedBudget, LocalBudget
from headgate.flow.limits.lease_account import GRACE_S, LEASE_S

LIMIT, UNIT_S, LEFT = 100_000, 1000, 5_000
PER_S = LIMIT // UNIT_S
MEMBERS = st.integers(0, 2)
TOKENS = st.sampled_from([1, 7, 40, 300, 2000])


@dataclass
class Member:
    """A gateway as the test knows it."""

    budget: LeasedBudget
    used: int = 0
    by_lease: int = 0
    """As much of that as it took while it could reach the account."""
    running: list[int] = field(default_factory=list)
    late: list[Claim] = field(default_factory=list)
    """Claims that are still under way, though nobody waits for their answers any more."""
    told: int = 0


class SharedBudget(RuleBasedStateMachine):
    """Three gateways that come and go, over an account that has little left."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        budget = LocalBudget(LIMIT, UNIT_S, self.now)
        budget.charge(LIMIT - LEFT, self.now)
        self.account = LeaseAccount(budget, "one")
        self.names = 0
        self.members = [self.new_member() for _ in range(3)]
        self.gone: list[Member] = []
        self.excess = 0
        """What may be used beyond the limit: by the dead of their leases, charged unasked, or of shares."""

    def new_member(self) -> Member:
        self.names += 1
        return Member(LeasedBudget("m", f"g{self.names}", LIMIT, UNIT_S, self.now, lambda _: None, members=3))

    @rule(which=MEMBERS, tokens=TOKENS, ask=st.booleans())
    def take(self, which, tokens, ask):
        member = self.members[which]
        if ask:
            member.budget.ask(tokens, self.now)
            self.talk(which)
        if member.budget.take(tokens, self.now):
            member.used += tokens
            member.running.append(tokens)
            if member.budget.is_parted:
                self.excess += tokens

    @rule(which=MEMBERS, given_back=st.floats(0, 1))
    def give_back(self, which, given_back):
        member = self.members[which]
        if member.running:
            tokens = int(member.running.pop() * given_back)
            member.budget.give_back(tokens, self.now)
            member.used -= tokens

    @rule(which=MEMBERS, tokens=TOKENS)
    def charge(self, which, tokens):
        member = self.members[which]
        member.budget.charge(tokens, self.now)
        member.used += tokens
        self.excess += tokens

    @rule(which=MEMBERS, tokens=TOKENS)
    def overdraw(self, which, tokens):
        member = self.members[which]
        if member.budget.overdraw(tokens, self.now):
            member.used += tokens
            self.excess += tokens

    @rule(which=MEMBERS)
    def talk(self, which):
        member = self.members[which]
        claim = member.budget.claim(self.now)
        member.budget.granted(claim, self.arrive(member, claim), self.now)

    def arrive(self, member: Member, claim: Claim) -> Grant:
        member.told = claim.used
        return self.account.claim(claim, self.now)

    @rule(which=MEMBERS, passed_s=st.integers(0, 2))
    def the_answer_comes_late(self, which, passed_s):
        member = self.members[which]
        claim = member.budget.claim(self.now)
        grant = self.arrive(member, claim)
        self.now += passed_s
        member.budget.granted(claim, grant, self.now)

    @rule(which=MEMBERS)
    def the_answer_is_lost(self, which):
        self.arrive(self.members[which], self.members[which].budget.claim(self.now))

    @rule(which=MEMBERS)
    def the_claim_is_delayed(self, which):
        member = self.members[which]
        member.late.append(member.budget.claim(self.now))

    @rule(which=MEMBERS)
    def a_late_claim_arrives(self, which):
        member = self.members[which]
        if member.late:
            claim = member.late.pop(0)
            before = member.told
            self.account.claim(claim, self.now)
            member.told = max(before, claim.used) if not member.late else before

    @rule(which=MEMBERS)
    def disconnect(self, which):
        self.members[which].budget.disconnect(self.now)

    @rule(which=MEMBERS)
    def reconnect(self, which):
        self.members[which].budget.reconnect(self.now)

    @rule(passed_s=st.sampled_from([1, 3, int(LEASE_S + GRACE_S) + 1]))
    def time_passes(self, passed_s):
        self.now += passed_s

    @rule(which=MEMBERS)
    def die(self, which):
        member = self.members[which]
        member.late.clear()
        self.gone.append(member)
        self.excess += max(member.used - self.confirmed(member), 0)
        self.members[which] = self.new_member()

    def confirmed(self, member: Member) -> int:
        known = self.account._members.get(member.budget.member)
        return known.used if known is not None else 0

    @invariant()
    def no_more_is_used_than_there_was(self):
        used = sum(member.used for member in (*self.members, *self.gone))
        assert used <= LEFT + PER_S * self.now + self.excess

    @invariant()
    def what_a_member_may_take_is_on_lease_to_it(self):
        for member in self.members:
            budget = member.budget
            known = self.account._members.get(budget.member)
            if self.now < budget._lease.until and known is not None:
                assert budget._lease.granted <= known.granted

    def teardown(self):
        """Once all have told what they used and the leases of the dead are over, the books agree."""
        for member in self.members:
            member.budget.close()
        self.now += LEASE_S + GRACE_S + 1
        for which in range(3):
            self.talk(which)
        dead = sum(self.confirmed(member) for member in self.gone)
        used = sum(member.used for member in self.members) + dead
        level = self.account.budget.available(self.now)
        assert level == LEFT + PER_S * self.now - used
        assert all(member.budget.is_settled for member in self.members)
        assert self.account.statistics(self.now)["leased"] == 0


SharedBudget.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestSharedBudget = SharedBudget.TestCase
