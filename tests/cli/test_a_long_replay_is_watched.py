import io
import re
import signal

import pytest
from click.testing import CliRunner
from rich.console import Console

from headgate.cli.simulate import replaying, simulate
from headgate.cli.simulate.replaying import Watch


def test_the_first_interrupt_ends_the_traffic_and_the_second_the_process():
    """Whoever presses Ctrl-C gets what there is; whoever does it again has enough."""
    handler = signal.getsignal(signal.SIGINT)
    with Watch(Console(file=io.StringIO())) as watch:
        taken = []
        for item in watch.each(range(100), 100, "policy"):
            taken.append(item)
            if item == 10:
                signal.raise_signal(signal.SIGINT)
        assert taken == list(range(11))
        assert watch.is_interrupted
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_interrupted_replay_shows_what_arrived(monkeypatch):
    """The requests so far are served and judged; a policy that had no turn has no row; the status tells."""

    class Impatient(Watch):
        def each(self, items, total, label):
            for number, item in enumerate(super().each(items, total, label)):
                if number == 30:
                    signal.raise_signal(signal.SIGINT)
                yield item

    monkeypatch.setattr("headgate.cli.simulate.comparing.Watch", Impatient)
    words = ["--workload", "lora", "--profile", "fast", "--policy", "random,predicted"]
    result = CliRunner().invoke(simulate, ["trace", *words])
    assert result.exit_code == 130
    assert re.search(r"^random +31 ", result.output, re.MULTILINE)
    assert not re.search(r"^predicted", result.output, re.MULTILINE)
    assert (
        "note: random: interrupted; the table includes only requests that had arrived by then"
        in result.output
    )


def test_a_terminal_sees_how_far_a_run_is():
    """A bar with the policy, what is done and what there is; it is gone at the end."""
    screen = io.StringIO()
    with Watch(Console(file=screen, force_terminal=True, width=100)) as watch:
        assert list(watch.each(range(5), 5, "least-work")) == list(range(5))
        watch.said("least-work: 5 s simulated")
    assert re.search(r"least-work .*[0-5]/5", screen.getvalue())
    assert "5 s simulated" in screen.getvalue()


def test_a_file_gets_no_bar():
    """Nor any line that is not the result."""
    log = io.StringIO()
    with Watch(Console(file=log)) as watch:
        assert list(watch.each(range(5), 5, "least-work")) == list(range(5))
        watch.said("least-work: 5 s simulated")
    assert log.getvalue() == ""


def test_precision_is_that_of_the_page():
    """--find-rate comes within 2 %."""
    assert replaying.PRECISION == 0.02
