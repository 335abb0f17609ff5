"""From what the settings name to a data set, or to an error that says what is wrong with it."""

import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from headgate.simulator.server.datasets.dataset import Dataset, conversation, hash_of

COLUMNS = ("prompt_hash", "gen_tokens", "n_gen_tokens")
MOST_BYTES = 8 * 1024**3
"""Of a data set that is downloaded."""
DOWNLOAD_TIMEOUT_S = 60.0
"""Between two parts of it."""
ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}
EXAMPLE = '{"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", "value": "..."}]}'
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class DatasetError(OSError):
    """A data set cannot be used; the message names it and says why."""


class Turn(msgspec.Struct, frozen=True):
    """One message of a conversation, in the names of ShareGPT."""

    role: str = msgspec.field(name="from")
    text: str = msgspec.field(name="value")


class Conversation(msgspec.Struct, frozen=True):
    conversations: list[Turn]


def open_dataset(path: str | None, url: str | None, table: str, *, in_memory: bool) -> Dataset | None:
    """None where neither path nor URL is given. `table` is a name. Raises DatasetError.

    With both, the file is downloaded to the path unless there is one.
    """
    if url is not None and path is None:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, "dataset")
            _download(url, file)
            return _open(file, url, table, in_memory=True)
    if url is not None and path is not None and not Path(path).exists():
        _download_once(url, Path(path))
    return None if path is None else _open(Path(path), path, table, in_memory=in_memory)


def is_table_name(table: str) -> bool:
    return _TABLE.fullmatch(table) is not None


def _open(file: Path, name: str, table: str, *, in_memory: bool) -> Dataset:
    if not file.is_file():
        raise DatasetError(f"data set {name}: there is no such file")
    if name.endswith((".json", ".jsonl")):
        return Dataset(_of_conversations(file, name, table), table)
    database = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False)
    try:
        _check(database, name, table)
        if in_memory:
            copy = sqlite3.connect(":memory:", check_same_thread=False)
            database.backup(copy)
            database.close()
            database = copy
            database.execute(f"CREATE INDEX IF NOT EXISTS by_prompt ON {table} (prompt_hash)")
    except sqlite3.Error as error:
        database.close()
        raise DatasetError(f"data set {name}: {error}") from error
    except DatasetError:
        database.close()
        raise
    return Dataset(database, table)


def _check(database: sqlite3.Connection, name: str, table: str) -> None:
    columns = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
    if not columns:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        there = f"there are {', '.join(tables)}" if tables else "there is none"
        raise DatasetError(f"data set {name}: it has no table {table}; {there} (--dataset-table-name)")
    if lacking := [column for column in COLUMNS if column not in columns]:
        raise DatasetError(f"data set {name}: table {table} lacks {', '.join(lacking)}")
    if database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is None:  # noqa: S608
        raise DatasetError(f"data set {name}: table {table} is empty")


def _of_conversations(file: Path, name: str, table: str) -> sqlite3.Connection:
    """Each answer is found by the conversation before it, and by the question alone."""
    try:
        if name.endswith(".jsonl"):
            lines = filter(None, map(bytes.strip, file.read_bytes().splitlines()))
            told = [msgspec.json.decode(line, type=Conversation) for line in lines]
        else:
            told = msgspec.json.decode(file.read_bytes(), type=list[Conversation])
    except msgspec.DecodeError as error:
        raise DatasetError(f"data set {name}: {error}; it is a list of {EXAMPLE}") from error
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.execute(f"CREATE TABLE {table} (prompt_hash BLOB, gen_tokens JSON, n_gen_tokens INTEGER)")
    database.executemany(f"INSERT INTO {table} VALUES (?, ?, 0)", _rows(told))  # noqa: S608
    database.execute(f"CREATE INDEX by_prompt ON {table} (prompt_hash)")
    if database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is None:  # noqa: S608
        database.close()
        raise DatasetError(f"data set {name}: there is no answer in it")
    return database


def _rows(told: Iterable[Conversation]) -> Iterator[tuple[bytes, bytes]]:
    for each in told:
        turns: list[tuple[str, str]] = []
        for turn in each.conversations:
            role = ROLES.get(turn.role, turn.role)
            if role == "assistant" and turns:
                answer = msgspec.json.encode({"text": turn.text})
                yield hash_of(conversation(turns)), answer
                yield hash_of(turns[-1][1]), answer
            turns.append((role, turn.text))


def _download_once(url: str, file: Path) -> None:
    """All of it or nothing is at the path."""
    with tempfile.TemporaryDirectory(dir=file.parent) as directory:
        partial = Path(directory, "dataset")
        _download(url, partial)
        partial.replace(file)


def _download(url: str, file: Path) -> None:
    import httpx2

    try:
        with (
            httpx2.stream("GET", url, timeout=DOWNLOAD_TIMEOUT_S, follow_redirects=True) as response,
            file.open("wb") as out,
        ):
            response.raise_for_status()
            for part in response.iter_bytes():
                out.write(part)
                if out.tell() > MOST_BYTES:
                    raise DatasetError(f"data set {url}: it is larger than {MOST_BYTES} bytes")
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise DatasetError(f"data set {url}: {error}") from error
