"""Whatever is delayed or lost in between, the API server trusts the certificate that a process serves."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.serving import certificates
from headgate.serving.certificates import Issued
from headgate.webhook import rotation
from headgate.webhook.rotation import Kept, Terms

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
TERMS = Terms(
    names=("hook.headgate-system.svc", "10.0.0.1"),
    valid=datetime.timedelta(hours=36),
    overlap=datetime.timedelta(hours=2),
)
HOUR = datetime.timedelta(hours=1)


@dataclass
class World:
    """A leader, two replicas, and an API server that sees the configuration late."""

    now: datetime.datetime = START
    secret: dict[str, str] = field(default_factory=dict)
    published: bytes = b""
    trusted: bytes = b""
    """What the API server has loaded."""
    served: list[Issued | None] = field(default_factory=lambda: [None, None])

    def lead(self) -> None:
        """One step of the leader, which is the first replica."""
        kept = rotation.from_secret(self.secret)
        before = self.published
        if kept.current is not None or kept.coming is not None:
            self.published = rotation.bundle(kept, self.published, self.now, self.served[0])
        is_published = before == self.published != b""
        self.secret = rotation.to_secret(rotation.advanced(kept, TERMS, self.now, is_published=is_published))

    def load(self, replica: int) -> None:
        """A replica reads the Secret; it goes on with what it has if the Secret has nothing usable."""
        kept = rotation.from_secret(self.secret)
        self.served[replica] = rotation.served(kept, TERMS, self.now, self.served[replica])

    def check(self) -> None:
        """Once the API server trusts anything, it trusts what is served."""
        trusted = set(rotation.certificates_in(self.trusted))
        for issued in self.served:
            if issued is not None and trusted:
                assert set(rotation.certificates_in(issued.ca)) <= trusted
                assert certificates.expires(issued, TERMS.names, self.now) is not None


def settled() -> World:
    """A world after its first certificate."""
    world = World()
    for _ in range(8):
        world.lead()
        for replica in (0, 1):
            world.load(replica)
        world.trusted = world.published
        world.now += HOUR
    return world


LOSSES = st.sampled_from(["nothing", "nothing", "nothing", "nothing", "all", "current", "key", "bundle"])


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(LOSSES, st.booleans(), st.integers(0, 3)), min_size=40, max_size=60))
def test_every_certificate_is_trusted_before_it_is_served(hours: list[tuple[str, bool, int]]) -> None:
    """Each hour the leader takes some steps, and everybody else loads what is there, sooner or later."""
    world = settled()
    for loss, is_api_server_first, steps in hours:
        match loss:
            case "all":
                world.secret = {}
            case "current":
                world.secret.pop("tls.crt", None)
            case "bundle":
                world.published = b""
            case "key":
                world.secret["tls.key"] = world.secret.get("next-tls.key", "")
        for _ in range(1 + steps):
            world.lead()
        if is_api_server_first:
            world.trusted = world.published
        for replica in (0, 1):
            world.load(replica)
        world.trusted = world.published
        world.check()
        world.now += HOUR


def test_a_certificate_is_renewed_before_it_expires() -> None:
    """With a third of its lifetime left, and then served after the overlap."""
    world = settled()
    first = rotation.from_secret(world.secret).current
    assert first is not None
    for _ in range(200):
        world.lead()
        world.trusted = world.published
        world.load(0)
        world.now += HOUR
        kept = rotation.from_secret(world.secret)
        assert kept.current is not None
        assert certificates.expires(kept.current, TERMS.names, world.now + TERMS.renew_before - 5 * HOUR)
    assert rotation.from_secret(world.secret).current != first
    assert len(list(rotation.certificates_in(world.published))) <= 3


def test_what_was_written_is_read() -> None:
    """A Secret is the same after it was read and written."""
    world = settled()
    kept = rotation.from_secret(world.secret)
    kept = msgspec.structs.replace(kept, coming=kept.current, published_at=START)
    assert rotation.from_secret(rotation.to_secret(kept)) == kept


@given(
    st.dictionaries(
        st.sampled_from(["ca.crt", "tls.crt", "tls.key", "next-ca.crt", "former-ca.crt", "published-at"]),
        st.text(max_size=40) | st.binary(max_size=40).map(lambda raw: raw.hex()),
    )
)
def test_a_corrupt_secret_is_replaced(data: dict[str, str]) -> None:
    """Whatever it has, nothing fails, and a certificate is issued."""
    kept = rotation.from_secret(data)
    assert rotation.served(kept, TERMS, START, None) is None
    rotation.bundle(kept, b"-----BEGIN CERTIFICATE-----", START, None)
    after = rotation.advanced(kept, TERMS, START, is_published=False)
    assert isinstance(after, Kept)
    assert rotation.served(after, TERMS, START, None) == after.coming


def test_a_certificate_of_other_names_is_replaced() -> None:
    """As after the Service was renamed."""
    world = settled()
    other = msgspec.structs.replace(TERMS, names=("other.svc",))
    kept = rotation.from_secret(world.secret)
    assert rotation.served(kept, other, world.now, kept.current) is None
    after = rotation.advanced(kept, other, world.now, is_published=True)
    assert after.coming is not None
    assert certificates.expires(after.coming, other.names, world.now) is not None
