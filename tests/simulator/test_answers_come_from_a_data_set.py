import asyncio
import contextlib
import hashlib
import json
import sqlite3

import pytest

from headgate.simulator.server import ServerSettings

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
QUESTION = {"role": "user", "content": "How deep is the canal?"}
CONVERSATIONS = [
    {
        "conversations": [
            {"from": "human", "value": "How deep is the canal?"},
            {"from": "gpt", "value": "Four metres at the lock."},
            {"from": "human", "value": "And how wide?"},
            {"from": "gpt", "value": "Twelve metres."},
        ]
    }
]


@pytest.fixture
def stored(tmp_path):
    """Makes a SQLite data set: what was said to each text, by tokens."""

    def make(answers, table="llmd", form=list):
        file = tmp_path / "answers.sqlite3"
        with contextlib.closing(sqlite3.connect(file)) as database, database:
            database.execute(
                f"CREATE TABLE {table} (id INTEGER PRIMARY KEY AUTOINCREMENT, prompt_hash BLOB NOT NULL, "
                "gen_tokens JSON NOT NULL, n_gen_tokens INTEGER NOT NULL)"
            )
            for asked, tokens in answers:
                told = tokens if form is list else {"strings": tokens, "numbers": list(range(len(tokens)))}
                row = (hashlib.sha256(asked.encode()).digest(), json.dumps(told), len(tokens))
                database.execute(
                    f"INSERT INTO {table} (prompt_hash, gen_tokens, n_gen_tokens) VALUES (?, ?, ?)", row
                )
        return str(file)

    return make


@pytest.fixture
def conversations(tmp_path):
    """Makes a data set of conversations, as JSON or as a line for each."""

    def make(name):
        file = tmp_path / name
        lines = "\n".join(map(json.dumps, CONVERSATIONS))
        file.write_text(json.dumps(CONVERSATIONS) if name.endswith(".json") else lines)
        return str(file)

    return make


async def ask(server, *messages, **body):
    asked = {"model": "tiny", "messages": messages} | body
    answer = (await server.client.post(CHAT, json=asked)).json()
    choice = answer["choices"][0]
    return choice["message"]["content"], choice["finish_reason"], answer["usage"]["completion_tokens"]


@pytest.mark.parametrize("form", [list, dict])
@pytest.mark.parametrize("in_memory", [False, True])
async def test_what_was_said_to_a_conversation_is_said_again(serve, stored, form, in_memory):
    """By the hash of its text, with as many tokens as it had, and the end of sequence."""
    told = ["Four", " met", "res", "."]
    path = stored([("### user:\nHow deep is the canal?\n", told), ("Once", ["x"])], form=form)
    async with serve(dataset_path=path, dataset_in_memory=in_memory) as server:
        assert await ask(server, QUESTION) == ("Four metres.", "stop", 5)
        assert await ask(server, QUESTION, max_tokens=2) == ("Four met", "length", 2)
        assert await ask(server, QUESTION, max_tokens=3, stop=["met"]) == ("Four ", "stop", 2)
        text = (await server.client.post(TEXT, json={"model": "tiny", "prompt": "Once"})).json()
        assert text["choices"][0]["text"] == "x"


async def test_a_stream_tells_the_same(serve, stored):
    """Token by token."""
    path = stored([("Once", ["up", "on", " a", " time"])])
    async with serve(dataset_path=path) as server:
        body = {"model": "tiny", "prompt": "Once", "stream": True}
        events = (await server.client.post(TEXT, json=body)).text.split("\n\n")
    told = [json.loads(event.removeprefix("data: "))["choices"][0]["text"] for event in events[:-2]]
    assert told == ["up", "on", " a", " time", ""]


async def test_without_end_of_sequence_an_answer_has_the_whole_limit(serve, stored):
    """`ignore_eos` goes on with words, and `min_tokens` as far as it says."""
    path = stored([("### user:\nHow deep is the canal?\n", ["Deep", "."])])
    async with serve(dataset_path=path) as server:
        text, reason, tokens = await ask(server, QUESTION, max_tokens=9, ignore_eos=True)
        assert (text[:5], reason, tokens) == ("Deep.", "length", 9)
        text, reason, tokens = await ask(server, QUESTION, max_tokens=9, min_tokens=6)
        assert (text[:5], reason, tokens) == ("Deep.", "stop", 7)


async def test_who_asks_something_else_gets_one_of_all(serve, stored):
    """By chance, and the same again for the same request."""
    path = stored([(str(number), [f"answer {number}"]) for number in range(20)])
    async with serve(dataset_path=path) as server:
        texts = [(await ask(server, {"role": "user", "content": f"?{n}"}))[0] for n in range(12)]
        again = [(await ask(server, {"role": "user", "content": f"?{n}"}))[0] for n in range(12)]
    assert texts == again
    assert len(set(texts)) > 4
    assert all(text.startswith("answer ") for text in texts)


@pytest.mark.parametrize("name", ["told.json", "told.jsonl"])
async def test_conversations_can_be_given_as_they_are(serve, fast, conversations, name):
    """ShareGPT's form. The next turn finds the answer cached, as it is read into the same tokens."""
    async with serve(dataset_path=conversations(name), engine=fast(block_size=4)) as server:
        text, reason, tokens = await ask(server, QUESTION)
        assert (text, reason, tokens) == ("Four metres at the lock.", "stop", 7)
        said = {"role": "assistant", "content": text}
        turns = [QUESTION, said, {"role": "user", "content": "And how wide?"}]
        answer = (await server.client.post(CHAT, json={"model": "tiny", "messages": turns})).json()
    assert answer["choices"][0]["message"]["content"] == "Twelve metres."
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 12


async def test_all_apis_ask_it(serve, conversations):
    """Responses and Anthropic's Messages are conversations, too."""
    async with serve(dataset_path=conversations("told.json")) as server:
        body = {"model": "tiny", "input": QUESTION["content"]}
        answer = (await server.client.post("/v1/responses", json=body)).json()
        assert answer["output"][0]["content"][0]["text"] == "Four metres at the lock."
        body = {"model": "tiny", "max_tokens": 50, "messages": [QUESTION]}
        answer = (await server.client.post("/v1/messages", json=body)).json()
        assert answer["content"][0]["text"] == "Four metres at the lock."


@contextlib.asynccontextmanager
async def web_server():
    """Has conversations for whoever asks; gives its port, and how often it was asked."""
    body = json.dumps(CONVERSATIONS).encode()
    asked = []

    async def respond(reader, writer):
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as web:
        yield web.sockets[0].getsockname()[1], asked


async def test_a_data_set_is_downloaded_to_its_path_once(serve, tmp_path):
    """A second engine finds the file."""
    path = tmp_path / "told.json"
    async with web_server() as (port, asked):
        for _ in range(2):
            async with serve(dataset_path=str(path), dataset_url=f"http://127.0.0.1:{port}/told.json"):
                pass
    assert len(asked) == 1
    assert json.loads(path.read_text()) == CONVERSATIONS
    assert list(tmp_path.iterdir()) == [path]


async def test_a_data_set_is_downloaded(serve, conversations):
    """From any web server, before the engine answers."""
    async with web_server() as (port, _), serve(dataset_url=f"http://127.0.0.1:{port}/told.json") as server:
        assert (await ask(server, QUESTION))[0] == "Four metres at the lock."


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path, stored: stored([("a", ["b"])], table="other"), "has no table llmd; there are other"),
        (lambda path, stored: stored([]), "table llmd is empty"),
        (lambda path, stored: str(path / "none.sqlite3"), "there is no such file"),
        (lambda path, stored: _written(path / "x.sqlite3", "text"), "file is not a database"),
        (lambda path, stored: _written(path / "x.json", '[{"conversation": []}]'), "is a list of"),
        (
            lambda path, stored: _written(path / "x.jsonl", '{"conversations": []}'),
            "no answer in it",
        ),
    ],
)
async def test_what_is_no_data_set_is_refused(serve, tmp_path, stored, make, problem):
    """Before the engine answers anything; the message names the file and what is wrong."""
    with pytest.raises(OSError, match=problem):
        async with serve(dataset_path=make(tmp_path, stored)):
            pass


def test_settings_of_data_sets_are_checked(fast):
    """The name of a table is a name."""
    with pytest.raises(ValueError, match="dataset_table_name: 'a; b' is not the name of a table"):
        ServerSettings(engine=fast(), dataset_table_name="a; b")


def _written(path, text):
    path.write_text(text)
    return str(path)
