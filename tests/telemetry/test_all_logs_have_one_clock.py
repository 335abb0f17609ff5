"""The lines of a program and of the access log, which may be in one file, tell the time in the same way."""

import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime

from headgate.telemetry import LogClock

PROGRAM = """
import logging
from headgate.cli import process
process.log_to_stderr("info")
logging.getLogger("headgate.x").warning("told")
logging.shutdown()
"""
FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_lines_of_programs_have_the_time_of_the_access_log():
    """RFC 3339 in UTC with milliseconds, whatever time zone the machine is in."""
    before = datetime.fromtimestamp(time.time(), UTC)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    after = datetime.fromtimestamp(time.time(), UTC)
    moment, rest = done.stderr.split(" ", 1)
    assert FORM.fullmatch(moment)
    assert FORM.fullmatch(LogClock().at(1.0))
    assert (
        before.replace(microsecond=before.microsecond // 1000 * 1000)
        <= datetime.fromisoformat(moment)
        <= after
    )
    assert rest == "WARNING headgate.x: told\n"
