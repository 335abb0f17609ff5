"""What another server can make happen at any rate is logged in few lines; the last is how things are."""

import logging

import pytest

from headgate.telemetry.line_log import AT_ONCE, EVERY_S, FewLines


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lines(clock, caplog):
    caplog.set_level(logging.INFO)
    return FewLines(logging.getLogger("test"), clock)


def texts(caplog):
    return [record.getMessage() for record in caplog.records]


def test_what_happens_now_and_then_is_written_as_it_comes(lines, clock, caplog):
    """With its level."""
    for number in range(100):
        clock.now += EVERY_S
        lines.warning("number %d", number)
        lines.settle()
    assert texts(caplog) == [f"number {number}" for number in range(100)]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_of_a_flood_few_are_written(lines, clock, caplog):
    """The first ones, one in ten seconds from then on, and how many were left out."""
    for number in range(20_000):
        clock.now += 0.01
        lines.info("number %d", number)
        lines.settle()
    assert AT_ONCE <= len(texts(caplog)) <= AT_ONCE + 200 / EVERY_S + 1
    assert texts(caplog)[AT_ONCE - 1] == f"number {AT_ONCE - 1}"
    assert "left out before: 9" in texts(caplog)[AT_ONCE]


def test_the_last_line_is_written_when_it_is_quiet(lines, clock, caplog):
    """Otherwise the log would end with how things were in between."""
    for _ in range(50):
        lines.warning("down")
        lines.info("up again")
    clock.now += EVERY_S
    lines.settle()
    lines.settle()
    left_out = 2 * 50 - AT_ONCE - 1
    assert texts(caplog)[AT_ONCE:] == [f"up again (lines like it that were left out before: {left_out})"]


def test_what_is_not_logged_counts_for_nothing(lines, caplog):
    """By the level that was set."""
    caplog.set_level(logging.WARNING)
    for _ in range(100):
        lines.info("unheard")
    lines.warning("heard")
    assert texts(caplog) == ["heard"]
