"""The published trace formats, and detection of a file's format."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from headgate.traffic.traces.lines import LineError, LineReader, shown
from headgate.traffic.traces.timed import TimedRequest

# Mooncake's format: one JSON object per line, with hashes of the prompt's blocks.
#
# As published with the paper (FAST '25), `FAST25-release/traces/` of kvcache-ai/Mooncake: `timestamp` in
# milliseconds, `input_length` and `output_length` in tokens, `hash_ids` of blocks of 512 tokens, each hash
# over its block and all before it. Other fields are ignored.
BLOCK_TOKENS = 512
MAX_TOKENS = 100_000_000
_MAX_MS = 10 * 366 * 86_400_000
_PATH = re.compile(r" - at `\$\.?([^`]*)`$")
_LACKS = re.compile(r"Object missing required field `(\w+)`")


class _Line(msgspec.Struct):
    timestamp: Annotated[float, msgspec.Meta(ge=0, le=_MAX_MS)]
    input_length: Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)]
    output_length: Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)]
    hash_ids: tuple[int, ...]


_WANTED = {
    "timestamp": "milliseconds since the trace began, at least 0",
    "input_length": "a whole number of tokens, at least 1",
    "output_length": "a whole number of tokens, at least 1",
    "hash_ids": "a list of whole numbers",
}
_decode = msgspec.json.Decoder(_Line).decode


class Mooncake:
    """Reads lines of Mooncake's traces."""

    def __init__(self, block_tokens: int = BLOCK_TOKENS) -> None:
        self.block_tokens = block_tokens

    def read(self, line: bytes) -> TimedRequest:
        try:
            record = _decode(line)
        except msgspec.ValidationError as error:
            raise _explained(line, str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise LineError(f"is not JSON: {error}", fix="each line is one object") from None
        blocks = -(-record.input_length // self.block_tokens)
        if len(record.hash_ids) != blocks:
            raise LineError(
                f"{len(record.hash_ids)} hashes for {record.input_length} tokens, which are {blocks} blocks "
                f"of {self.block_tokens}",
                field="hash_ids",
                fix="say how many tokens a block of this trace has (--block-tokens)",
            )
        return TimedRequest(
            at_s=record.timestamp / 1000,
            prompt_tokens=record.input_length,
            output_tokens=record.output_length,
            prefix=record.hash_ids,
            block_tokens=self.block_tokens,
        )


def _explained(line: bytes, told: str) -> LineError:
    """The error in a line that is valid JSON, in terms of the format."""
    if missing := _LACKS.search(told):
        return LineError("is missing", field=missing[1], fix=f"it is {_WANTED[missing[1]]}")
    path = _PATH.search(told)
    if path is None or not path[1]:
        wanted = ", ".join(_WANTED)
        return LineError("is not an object", fix=f"each line is one with {wanted}")
    value: Any = msgspec.json.decode(line)
    field = path[1].partition("[")[0]
    return LineError(f"{shown(value[field])} is not {_WANTED[field]}", field=field)


class _Rows:
    """The rows of a CSV file whose first line names the columns."""

    def __init__(self, wanted: tuple[str, ...], fix: str) -> None:
        self._wanted = wanted
        self._fix = fix
        """The rest of an error message that begins with "the first line"."""
        self._columns: list[str] | None = None

    def read(self, line: bytes) -> dict[str, str] | None:
        """The cells of a row by column; None for the heading. Raises LineError."""
        try:
            cells = next(csv.reader([line.decode("utf-8-sig")], strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise LineError(f"is not a line of CSV: {error}") from None
        if self._columns is None:
            self._take_heading(cells)
            return None
        if len(cells) != len(self._columns):
            raise LineError(f"{len(cells)} columns, not the {len(self._columns)} of the heading")
        return dict(zip(self._columns, cells, strict=True))

    def _take_heading(self, cells: list[str]) -> None:
        self._columns = [cell.strip() for cell in cells]
        missing = [name for name in self._wanted if name not in self._columns]
        if missing:
            self._columns = list(self._wanted)
            raise LineError(
                f"the heading {shown(','.join(cells))} lacks {', '.join(missing)}",
                fix=f"the first line {self._fix} {','.join(self._wanted)}",
                is_last=len(missing) == len(self._wanted),
            )


# Azure's format: CSV with time and sizes of each request, without information on shared prefixes.
#
# As published for 2023 and 2024 in `data/` of Azure/AzurePublicDataset: `TIMESTAMP,ContextTokens,
# GeneratedTokens`, where the time has a date and up to seven digits of a second.
AZURE_HEADING = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_MAX_DIGITS = 12


class Azure:
    """Reads the lines of one file; the first request defines when the trace began."""

    def __init__(self) -> None:
        self._rows = _Rows(AZURE_HEADING, "is")
        self._began: datetime | None = None

    def read(self, line: bytes) -> TimedRequest | None:
        row = self._rows.read(line)
        if row is None:
            return None
        at = _time(row["TIMESTAMP"])
        if self._began is None:
            self._began = at
        return TimedRequest(
            at_s=(at - self._began).total_seconds(),
            prompt_tokens=_tokens(row, "ContextTokens"),
            output_tokens=_tokens(row, "GeneratedTokens"),
        )


def _time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise LineError(
            f"{shown(text)} is not a time", field="TIMESTAMP", fix="write it as 2023-11-16 18:17:03.9799600"
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _tokens(row: dict[str, str], field: str) -> int:
    text = row[field].strip()
    if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and 1 <= int(text) <= MAX_TOKENS:
        return int(text)
    raise LineError(f"{shown(row[field])} is not a whole number of tokens, at least 1", field=field)


# BurstGPT's format: CSV with time and sizes of each request, and in later releases its conversation.
#
# As published with the paper (arXiv 2401.17644), `data/` of HPMLL/BurstGPT: `Timestamp,Model,Request tokens,
# Response tokens,Total tokens,Log Type`, where the time is in seconds; `Session ID` is optional. Requests
# that failed have 0 response tokens, and are skipped.
BURSTGPT_HEADING = ("Timestamp", "Request tokens", "Response tokens")
SESSION = "Session ID"
_MAX_S = 10 * 366 * 86_400.0


class BurstGpt:
    """Reads the lines of one file; the first request defines when the trace began."""

    def __init__(self) -> None:
        self._rows = _Rows(BURSTGPT_HEADING, "has")
        self._began_s: float | None = None
        self._sessions: dict[str, int] = {}

    def read(self, line: bytes) -> TimedRequest | None:
        row = self._rows.read(line)
        if row is None:
            return None
        at_s = _time_s(row["Timestamp"])
        prompt, output = _size(row, "Request tokens"), _size(row, "Response tokens")
        if not (prompt and output):
            return None
        if self._began_s is None:
            self._began_s = at_s
        return TimedRequest(
            at_s=at_s - self._began_s,
            prompt_tokens=prompt,
            output_tokens=output,
            session=self._session(row.get(SESSION, "").strip()),
        )

    def _session(self, name: str) -> int:
        return self._sessions.setdefault(name, len(self._sessions)) if name else -1


def _time_s(text: str) -> float:
    try:
        at_s = float(text)
    except ValueError:
        at_s = math.nan
    if not 0 <= at_s <= _MAX_S:
        raise LineError(f"{shown(text)} is not a time", field="Timestamp", fix="write it in seconds")
    return at_s


def _size(row: dict[str, str], field: str) -> int:
    text = row[field].strip()
    if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and int(text) <= MAX_TOKENS:
        return int(text)
    raise LineError(f"{shown(row[field])} is not a whole number of tokens", field=field)


class TraceFormat(msgspec.Struct, frozen=True, kw_only=True):
    """A published trace format."""

    name: str
    reader: Callable[[], LineReader]
    """Creates the reader for one file."""


FORMATS: dict[str, TraceFormat] = {
    "mooncake": TraceFormat(name="mooncake", reader=Mooncake),
    "azure": TraceFormat(name="azure", reader=Azure),
    "burstgpt": TraceFormat(name="burstgpt", reader=BurstGpt),
}


def detect(first_line: bytes) -> str | None:
    """The name of the format whose files begin with this line; None if unknown."""
    line = first_line.removeprefix(b"\xef\xbb\xbf").strip()
    if line.startswith(b"{"):
        return "mooncake"
    columns = [cell.strip().lower() for cell in line.split(b",")]
    if BURSTGPT_HEADING[1].lower().encode() in columns:
        return "burstgpt"
    return "azure" if AZURE_HEADING[0].lower().encode() in columns else None
