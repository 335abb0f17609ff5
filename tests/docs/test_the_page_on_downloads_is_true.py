"""The page on downloads has every reason, field and limit of the code."""

import re
from pathlib import Path

from headgate import downloads
from headgate.downloads import hub, listing
from headgate.downloads.lease import Timing
from headgate.downloads.partial import PART_BYTES
from headgate.downloads.retries import Backoff

PAGE = (Path(__file__).parents[2] / "docs" / "downloads.md").read_text()


def test_every_reason_has_its_exit_code() -> None:
    """In the table, in the order of the codes."""
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", PAGE, re.M)
    assert rows == [(str(reason.value), reason.label) for reason in downloads.Reason]


def test_every_field_of_the_status_is_listed() -> None:
    """Those of the snapshot; the command adds the others."""
    names = set(re.findall(r"`(\w+)`", PAGE.partition("## Progress")[2].partition("## Errors")[0]))
    assert set(downloads.Snapshot.__struct_fields__) <= names


def test_numbers_are_those_of_the_code() -> None:
    """Limits and times."""
    for text in (
        f"{listing.MAX_FILES:,} files",
        f"{listing.MAX_BYTES >> 40} TiB",
        f"{hub._MAX_LISTING_BYTES >> 20} MiB",
        f"parts of {PART_BYTES >> 20} MiB",
        f"every {Timing().renew_s:g} s",
        f"not changed for {Timing().expiry_s:g} s",
        f"up to {Backoff().attempts} times",
        f"after {Backoff().first_s:g} to {Backoff().longest_s:g} s",
    ):
        assert text in PAGE, text
