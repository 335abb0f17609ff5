"""Flags in manifests for the reference picker that concern its log library."""

import click
import pytest
from click.testing import CliRunner

from headgate.cli.picker.go_flags import GoCommand


@click.command(cls=GoCommand)
@click.option("--pool-name")
def command(pool_name: str) -> None:
    click.echo(f"pool {pool_name}")


@pytest.mark.parametrize(
    "words",
    [
        ["--zap-encoder", "json", "--pool-name", "p"],
        ["--pool-name=p", "-zap-encoder=json"],
        ["--pool-name", "p", "--zap-log-level", "4", "--zap-time-encoding=iso8601"],
    ],
)
def test_flags_of_the_log_library_have_no_effect_and_say_so(words):
    """In every form that Go programs take; the other flags keep their values."""
    done = CliRunner().invoke(command, words)
    assert (done.exit_code, done.stdout) == (0, "pool p\n")
    assert "has no effect" in done.stderr


def test_a_flag_without_its_value_at_the_end_is_dropped():
    """As there is nothing that it could take."""
    done = CliRunner().invoke(command, ["--pool-name", "p", "--zap-encoder"])
    assert (done.exit_code, done.stdout) == (0, "pool p\n")
