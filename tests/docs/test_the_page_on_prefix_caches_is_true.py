"""docs/prefix-cache.md: its numbers are the code's, its example is valid, and so is its JSON."""

import json
import re
import subprocess
import sys
from pathlib import Path

from headgate.api import marks
from headgate.fleet.prefix import hashing, index, tiers
from headgate.observe.kv_events import tokens
from headgate.requests import learning

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "prefix-cache.md").read_text()


def test_numbers_are_those_of_the_code():
    """Sizes, bounds and times."""
    for number, words in (
        (hashing.BLOCK_BYTES, "of {:,} bytes each"),
        (index.ENDPOINT_BLOCKS, "(else {:,} blocks)"),
        (index.MAX_BLOCKS, "by {:,} blocks"),
        (int(index.TTL_S // 60), "by {} minutes"),
        (learning.MIN_TOKENS, "of {:,} or more tokens"),
        (int(learning.SURE_AFTER_S), "more than {} s ago"),
        (tiers.WEIGHTS[tiers.HOST], "counts for {} of one"),
        (tiers.WEIGHTS[tiers.STORAGE], "else for {}."),
        (int(tokens.PER_S), "{} a second"),
        (tokens.MAX_BODY_BYTES // 1024, "at most {} KB"),
    ):
        assert words.format(number) in PAGE


def test_annotations_are_those_that_are_read():
    """All of them, and no other."""
    told = set(re.findall(r"headgate\.dev/[a-z-]+", PAGE))
    assert told == {marks.KV_EVENTS, marks.KV_EVENTS_REPLAY, marks.KV_EVENTS_RANKS}


def test_the_example_is_valid():
    """The command prints what the page says."""
    command, output = re.search(r"\$ (headgate validate .*)\n((?:.*\n)*?)```", PAGE).groups()
    done = subprocess.run(
        [sys.executable, "-m", *command.split()], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout + done.stderr == output


def test_the_answer_on_the_page_is_json():
    """With the fields that the admin port has; the test of a whole machine looks at the real ones."""
    answer = re.search(r"\| \{name, prefix\}'\n(.*?)```", PAGE, re.DOTALL)[1]
    assert json.loads(answer)["prefix"]["events"]["state"] == "live"
