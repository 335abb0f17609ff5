"""What docs/flow-control.md says of names, codes and times is what the gateway has."""

import re
from pathlib import Path

from headgate.dataplane.queueing import queue_hints
from headgate.flow.queue import FAIRNESS, ORDERINGS
from headgate.flow.queue.waiting import STATUSES
from headgate.gateway import GatewaySettings, progress, setting_types
from headgate.requests.queueing import reasons

PAGE = (Path(__file__).parents[2] / "docs" / "flow-control.md").read_text()


def test_every_refusal_is_in_the_table():
    """Status, code and reason of each, but for clients that have gone."""
    rows = re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \|", PAGE, re.MULTILINE)
    told = {
        (int(status), code, reason)
        for status, codes, names in rows
        for code, reason in zip(re.findall(r"`(\w+)`", codes), re.findall(r"`([\w-]+)`", names), strict=True)
    }
    known = {(STATUSES[reason], code, reason) for reason, code in reasons.CODES.items()}
    assert told == known - {(503, "client_gone", reasons.CANCELLED)}
    assert f"`{reasons.CANCELLED}`" in PAGE


def test_every_policy_is_in_its_table():
    """No more and no fewer."""
    rows = set(re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE))
    assert rows & {*FAIRNESS, *ORDERINGS} == {*FAIRNESS, *ORDERINGS}


def test_every_header_that_is_read_is_named():
    """Of requests that wait."""
    assert [name for name in queue_hints._KNOWN if f"`{name.decode()}" not in PAGE] == []


def test_settings_have_the_names_and_values_that_are_told():
    """Each setting of the section, and the times."""
    assert set(re.findall(r"`(queue\.[a-z_]+)[`:]", PAGE)) <= setting_types.settings().keys()
    settings = GatewaySettings()
    assert f"`queue.ttl_s` at most ({settings.queue.ttl_s:g} s)" in PAGE
    assert f"`queue.no_endpoint_wait_s` ({settings.queue.no_endpoint_wait_s:g} s)" in PAGE


def test_times_of_progress():
    """Sweeps come about once a second."""
    assert progress.FIRST_PROGRESS_S <= 1.0
    assert progress.PROGRESS_S <= 5.0
    assert "after a second and then every five" in PAGE
