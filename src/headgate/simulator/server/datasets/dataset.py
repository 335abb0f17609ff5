"""Stored answers, found by the hash of the conversation that they were given in."""

import hashlib
import random
import sqlite3
from collections.abc import Sequence

import msgspec

Turns = Sequence[tuple[str, str]]
"""Role and text of each message of a conversation."""


class Answer(msgspec.Struct, frozen=True):
    """What was said: by tokens, as a tokenizer had made them, or only as a text."""

    strings: list[str] = []
    text: str = ""


_answer = msgspec.json.Decoder(list[str] | Answer)


def hash_of(text: str) -> bytes:
    """By which a prompt is found."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def conversation(turns: Turns) -> str:
    """A chat as the text whose hash is stored: llm-d-inference-sim's form."""
    return "".join(f"### {role}:\n{text}\n" for role, text in turns)


class Dataset:
    """Reads one table of a SQLite database, which it owns. `close` it."""

    def __init__(self, database: sqlite3.Connection, table: str) -> None:
        """The table was checked, and has a row at least."""
        self._database = database
        self._last_row = int(database.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0])  # noqa: S608
        self._by_hash = f"SELECT gen_tokens FROM {table} WHERE prompt_hash = ?"  # noqa: S608
        self._from_row = f"SELECT gen_tokens FROM {table} WHERE rowid >= ? ORDER BY rowid LIMIT 1"  # noqa: S608

    def answer(self, asked: str, rng: random.Random) -> Answer:
        """What was said to this; one of several, or of all where nothing was, by chance."""
        rows = self._database.execute(self._by_hash, (hash_of(asked),)).fetchall()
        if rows:
            (told,) = rng.choice(rows)
        else:
            (told,) = self._database.execute(self._from_row, (rng.randint(1, self._last_row),)).fetchone()
        try:
            found = _answer.decode(told)
        except msgspec.DecodeError:
            found = Answer()  # one bad row is one empty answer
        return Answer(strings=found) if isinstance(found, list) else found

    def close(self) -> None:
        self._database.close()
