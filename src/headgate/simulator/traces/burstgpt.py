"""BurstGPT's format: CSV with the time and the sizes of each request, and in later releases its conversation.

As published with the paper (arXiv 2401.17644), `data/` of HPMLL/BurstGPT: `Timestamp,Model,Request tokens,
Response tokens,Total tokens,Log Type`, where the time is in seconds; `Session ID` may be among them. Requests
that failed have 0 response tokens, and are passed over.
"""

from __future__ import annotations

import csv
import math

from headgate.simulator.traces.lines import LineError, shown
from headgate.simulator.traces.mooncake import MAX_TOKENS
from headgate.simulator.traces.timed import TimedRequest

HEADING = ("Timestamp", "Request tokens", "Response tokens")
SESSION = "Session ID"
_MAX_S = 10 * 366 * 86_400.0
_MAX_DIGITS = 12


class BurstGpt:
    """Reads the lines of one file: the heading tells the columns, the first request when the trace began."""

    def __init__(self) -> None:
        self._columns: list[str] | None = None
        self._began_s: float | None = None
        self._sessions: dict[str, int] = {}

    def read(self, line: bytes) -> TimedRequest | None:
        try:
            cells = next(csv.reader([line.decode("utf-8-sig")], strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise LineError(f"is not a line of CSV: {error}") from None
        if self._columns is None:
            self._take_heading(cells)
            return None
        if len(cells) != len(self._columns):
            raise LineError(f"{len(cells)} columns, not the {len(self._columns)} of the heading")
        row = dict(zip(self._columns, cells, strict=True))
        at_s = _time_s(row["Timestamp"])
        prompt, output = _tokens(row, "Request tokens"), _tokens(row, "Response tokens")
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

    def _take_heading(self, cells: list[str]) -> None:
        self._columns = [cell.strip() for cell in cells]
        missing = [name for name in HEADING if name not in self._columns]
        if missing:
            self._columns = list(HEADING)
            raise LineError(
                f"the heading {shown(','.join(cells))} lacks {', '.join(missing)}",
                fix=f"the first line has {','.join(HEADING)}",
                is_last=len(missing) == len(HEADING),
            )


def _time_s(text: str) -> float:
    try:
        at_s = float(text)
    except ValueError:
        at_s = math.nan
    if not 0 <= at_s <= _MAX_S:
        raise LineError(f"{shown(text)} is not a time", field="Timestamp", fix="write it in seconds")
    return at_s


def _tokens(row: dict[str, str], field: str) -> int:
    text = row[field].strip()
    if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and int(text) <= MAX_TOKENS:
        return int(text)
    raise LineError(f"{shown(row[field])} is not a whole number of tokens", field=field)
