"""docs/clients.md has settings that are valid, and every code that clients are refused with."""

import re
from pathlib import Path

from headgate.cli.gateway.configuration import load

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "clients.md").read_text()


def test_settings_of_the_page_are_valid(tmp_path):
    """As they stand there, they are a file that the gateway takes."""
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    file = tmp_path / "gateway.yaml"
    file.write_text(text)
    settings = load(file, {})
    assert settings.clients.trusted_networks == ("10.0.0.0/8",)
    assert settings.cors.max_age_s == 3600


def test_page_has_every_code_of_the_cases():
    """With its status, as the cases that are sent to a gateway have it."""
    cases = (ROOT / "tests" / "gateway" / "smuggling" / "requests.txt").read_text("latin-1")
    verdicts = set(re.findall(r"^[^#|]+ \| (\d{3}) (\w+) \|", cases, re.M))
    told = {
        (status, code)
        for status, codes in re.findall(r"^\| (\d{3}) \| ([^|]+) \|", PAGE, re.M)
        for code in re.findall(r"`(\w+)`", codes)
    }
    assert len(verdicts) >= 8
    assert verdicts <= told
