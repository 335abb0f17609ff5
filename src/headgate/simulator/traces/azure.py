"""Azure's format: CSV with the time and the sizes of each request, and nothing of what prompts share.

As published for 2023 and 2024 in `data/` of Azure/AzurePublicDataset: `TIMESTAMP,ContextTokens,
GeneratedTokens`, where the time is a date and time of day with up to seven digits of a second.
"""

from __future__ import annotations

import csv
from datetime import UTC, datetime

from headgate.simulator.traces.lines import LineError, shown
from headgate.simulator.traces.mooncake import MAX_TOKENS
from headgate.simulator.traces.timed import TimedRequest

HEADING = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_MAX_DIGITS = 12


class Azure:
    """Reads the lines of one file: the heading tells the columns, the first request when the trace began."""

    def __init__(self) -> None:
        self._columns: list[str] | None = None
        self._began: datetime | None = None

    def read(self, line: bytes) -> TimedRequest | None:
        try:
            text = line.decode("utf-8-sig")
            cells = next(csv.reader([text], strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise LineError(f"is not a line of CSV: {error}") from None
        if self._columns is None:
            self._take_heading(cells)
            return None
        if len(cells) != len(self._columns):
            raise LineError(f"{len(cells)} columns, not the {len(self._columns)} of the heading")
        row = dict(zip(self._columns, cells, strict=True))
        at = _time(row["TIMESTAMP"])
        if self._began is None:
            self._began = at
        return TimedRequest(
            at_s=(at - self._began).total_seconds(),
            prompt_tokens=_tokens(row, "ContextTokens"),
            output_tokens=_tokens(row, "GeneratedTokens"),
        )

    def _take_heading(self, cells: list[str]) -> None:
        self._columns = [cell.strip() for cell in cells]
        missing = [name for name in HEADING if name not in self._columns]
        if missing:
            self._columns = list(HEADING)
            raise LineError(
                f"the heading {shown(','.join(cells))} lacks {', '.join(missing)}",
                fix=f"the first line is {','.join(HEADING)}",
                is_last=len(missing) == len(HEADING),
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
