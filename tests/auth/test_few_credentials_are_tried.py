"""A request may hold many credentials: the first few are tried, whatever each of them costs."""

from headgate.auth.directory import Directory
from headgate.auth.gate import MAX_TRIED, Gate
from headgate.auth.outcome import EXPIRED, UNKNOWN


class Tokens:
    """Notes which tokens are verified."""

    def __init__(self):
        self.verified = []

    def identity(self, credential, digest, now):
        self.verified.append(credential)
        return EXPIRED


def test_a_head_full_of_tokens():
    tokens = Tokens()
    headers = [(b"x-api-key", b"token-%d" % number) for number in range(100)]
    assert Gate(Directory(), tokens).admit(headers, None, 0.0) is EXPIRED
    assert tokens.verified == [b"token-%d" % number for number in range(MAX_TRIED)]
    assert len(headers) == 100


def test_one_of_each_header():
    """As clients and the proxies in front of them send them."""
    tokens = Tokens()
    headers = [(b"authorization", b"Bearer a"), (b"api-key", b"b"), (b"x-api-key", b"c"), (b"host", b"g")]
    assert Gate(Directory(), tokens).admit(headers, None, 0.0) is EXPIRED
    assert tokens.verified == [b"a", b"b", b"c"]
    assert Gate(Directory()).admit(headers, None, 0.0) is UNKNOWN
