"""A document of OpenAPI may have 11 MB: others are served while it is made, with the same result."""

import msgspec

from headgate.apiserver.handlers import documents


class Call:
    turns = 0

    async def next_turn(self):
        self.turns += 1


def document():
    schemas = {f"example.v1.Kind{number}": {"type": "object", "n": number} for number in range(20)}
    return {
        "openapi": "3.0.0",
        "info": {"title": "t"},
        "paths": {"/a": {}},
        "components": {"schemas": schemas},
    }


async def test_others_have_their_turns_between_schemas(monkeypatch):
    """However long each of them takes."""
    monkeypatch.setattr(documents, "TURN_S", 0.0)
    call = Call()
    assert await documents._encoded(document(), call) == msgspec.json.encode(document())
    assert call.turns == 20


async def test_the_hash_of_a_long_document_is_the_same(monkeypatch):
    """It is made in a thread."""
    at_once = await documents._digest(b"x" * 100)
    monkeypatch.setattr(documents, "IN_THREAD_BYTES", 10)
    assert await documents._digest(b"x" * 100) == at_once
