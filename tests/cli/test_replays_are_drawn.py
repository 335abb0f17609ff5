import sys
from pathlib import Path

from click.testing import CliRunner, Result

from headgate.cli.simulate import simulate

TRACE = str(Path(__file__).parents[2] / "examples" / "simulate" / "trace.jsonl")
NAMES = ("ttft-cdf", "ttft-over-time", "hit-rate-over-time", "load-per-endpoint")


def replayed(*words: str) -> Result:
    return CliRunner().invoke(simulate, ["trace", TRACE, "--limit", "60", "--replicas", "2", *words])


def test_plots_are_drawn_twice_the_same(tmp_path):
    """Four pictures, each as PNG and SVG; equal seeds give equal bytes."""
    for directory in ("one", "two"):
        result = replayed("--policy", "predicted,least-work", "--plots", str(tmp_path / directory))
        assert result.exit_code == 0, result.output
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == sorted(f"{name}.{suffix}" for name in NAMES for suffix in ("png", "svg"))
    assert (tmp_path / "one" / "ttft-cdf.png").read_bytes().startswith(b"\x89PNG")
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_without_matplotlib_the_package_to_install_is_named(monkeypatch, tmp_path):
    """Before anything is replayed."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = replayed("--plots", str(tmp_path))
    assert result.exit_code == 2
    assert "--plots needs matplotlib: pip install 'headgate[plots]'" in result.output
