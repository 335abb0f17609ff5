"""TokenReviews and SubjectAccessReviews: what is asked, remembered, and for how many."""

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import cluster
from headgate.node.kubelet import callers, reviews

READ = callers.Right("get", ("pods", "proxy"))


class ApiServer:
    """Knows the token `good`, and grants `proxy`; counts what it is asked."""

    def __init__(self):
        self.asked = []
        self.connections = set()
        self.is_broken = False

    async def serve(self, reader, writer):
        self.connections.add(asyncio.current_task())
        while line := await reader.readline():
            size = 0
            while (header := await reader.readline()) != b"\r\n":
                if header.lower().startswith(b"content-length:"):
                    size = int(header.partition(b":")[2])
            review = msgspec.json.decode(await reader.readexactly(size))
            self.asked.append((line.split()[1].decode(), review["spec"]))
            body = b"nonsense" if self.is_broken else msgspec.json.encode({"status": self.status(review)})
            writer.write(b"HTTP/1.1 201 Created\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
            await writer.drain()
        writer.close()

    def status(self, review):
        spec = review["spec"]
        if review["kind"] == "TokenReview":
            user = {"username": "me", "groups": ["all"], "extra": {"from": ["here"]}}
            return {"authenticated": True, "user": user} if spec["token"] == "good" else {}
        return {"allowed": spec["resourceAttributes"]["subresource"] == "proxy"}


@pytest.fixture
async def api_server():
    started = ApiServer()
    server = await asyncio.start_server(started.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with cluster.Client.from_url(f"http://{host}:{port}") as client:
        started.reviews = reviews.Reviews(client, "here")
        yield started
    server.close()
    await asyncio.gather(*started.connections)


async def test_a_token_is_reviewed_once(api_server):
    caller = callers.Caller("me", ("all",), "", {"from": ["here"]})
    assert [await api_server.reviews.caller("good") for _ in range(3)] == [caller] * 3
    assert [path for path, _ in api_server.asked] == ["/apis/authentication.k8s.io/v1/tokenreviews"]


async def test_an_unknown_token_is_reviewed_again(api_server):
    """It may be valid by then; one that is too long is not sent at all."""
    assert [await api_server.reviews.caller("bad") for _ in range(2)] == [None, None]
    assert len(api_server.asked) == 2
    assert await api_server.reviews.caller("x" * 10_000) is None
    assert await api_server.reviews.caller("") is None
    assert len(api_server.asked) == 2


async def test_one_of_the_rights_is_enough(api_server):
    caller = callers.Caller("me", ("all",))
    assert await api_server.reviews.allows(caller, READ)
    assert await api_server.reviews.allows(caller, READ)
    attributes = [spec["resourceAttributes"] for _, spec in api_server.asked]
    assert [each["subresource"] for each in attributes] == ["pods", "proxy"]
    assert attributes[0] | {"subresource": ""} == {
        "verb": "get", "version": "v1", "resource": "nodes", "subresource": "", "name": "here"
    }  # fmt: skip
    assert not await api_server.reviews.allows(caller, callers.Right("get", ("stats",)))


async def test_decisions_are_those_of_one_caller(api_server):
    """Somebody of the same name in other groups is reviewed as well."""
    for groups in (("one",), ("two",)):
        await api_server.reviews.allows(callers.Caller("me", groups), callers.Right("get", ("proxy",)))
    assert [spec["groups"] for _, spec in api_server.asked] == [["one"], ["two"]]


async def test_an_answer_that_cannot_be_read_admits_nobody(api_server):
    api_server.is_broken = True
    with pytest.raises(reviews.ReviewError):
        await api_server.reviews.caller("good")
    with pytest.raises(reviews.ReviewError):
        await api_server.reviews.allows(callers.Caller("me"), READ)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), max_size=60))
def test_what_is_remembered_is_bounded_and_ends(steps):
    remembered = reviews.Remembered(entries=5)
    until = {}
    for now, (key, seconds) in enumerate(steps):
        found = remembered.get(key, now)
        assert found is None or (found == key and until[key] > now)
        remembered.put(key, key, now + seconds)
        until[key] = now + seconds
        assert remembered.get(key, now) == key
        assert len(remembered._values) <= 5
