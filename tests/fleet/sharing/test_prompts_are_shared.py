"""A prompt that one member sent is found by the others, and so is its response."""

from headgate import fleet, routing
from headgate.fleet import sharing
from headgate.fleet.prefix import PrefixIndex

POD, OTHER = (routing.Endpoint(f"default/pod-{place}", "127.0.0.1", 8000 + place) for place in range(2))


class Member:
    def __init__(self):
        self.ledger, self.index = fleet.Ledger(), PrefixIndex()
        self.index.journal = sharing.Journal()
        self.reporter = sharing.Reporter(self.ledger, self.index.journal)
        self.members = sharing.Members(self.ledger, self.index)
        self.loads = [self.ledger.load(POD), self.ledger.load(OTHER)]


def test_the_next_turn_is_found_by_another_member():
    """The other member finds the prompt and the tokens that were generated after it."""
    first, second = Member(), Member()
    first.index.add([1, 2, 3], first.loads[0], 0.0)
    first.index.responded([1, 2, 3], first.loads[0], 5)
    second.members.hear("first", first.reporter.changes(0.1), 0.1)
    assert second.index.matched([1, 2, 3, 4, 5, 6], second.loads) == [5, 0]
    assert second.index.matched([1, 2, 9], second.loads) == [2, 0]


def test_reported_prompts_are_not_reported_again():
    """Each member reports its own prompts, so that none goes round in circles."""
    first, second = Member(), Member()
    first.index.add([1, 2, 3], first.loads[0], 0.0)
    second.members.hear("first", first.reporter.changes(0.1), 0.1)
    assert second.reporter.changes(0.2).prompts == []


def test_a_new_member_gets_the_recent_prompts():
    """Prompts that all others have are sent again to a member that joins."""
    first, new = Member(), Member()
    first.index.add([1, 2, 3], first.loads[0], 0.0)
    first.reporter.changes(0.1)
    new.members.hear("first", first.reporter.whole(5.0), 5.0)
    assert new.index.matched([1, 2, 3], new.loads) == [3, 0]


def test_hashes_of_another_kind_are_left_out():
    """Members that hash differently share their loads, but not their prompts."""
    first, second = Member(), Member()
    first.index.add([1, 2, 3], first.loads[0], 0.0)
    first.loads[0].book(100, 10, 0.0)
    second.members.hear("first", first.reporter.changes(0.1), 0.1, same_hashes=False)
    assert second.index.matched([1, 2, 3], second.loads) == [0, 0]
    assert second.loads[0].requests == 1
