"""Options of `headgate runtime`: what is wrong is named before anything is served."""

import pytest
from click.testing import CliRunner

from headgate.cli import main
from headgate.runtime.engine import Address, AddressError


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--engine", "vlm"), "'vlm' is not an engine; there are vLLM, SGLang"),
        (("--engine-base-url", "localhost:8000"), "is not a URL such as http://localhost:8000"),
        (("--engine-base-url", "file:///etc"), "is not a URL"),
        (("--engine-base-url", "http://a:99999"), "is not a URL"),
        (("--engine-base-url", "http://user@a"), "is not a URL"),
        (("--engine-base-url", "http://a/x y"), "characters that need escapes"),
        (("--engine-metrics-path", "metrics"), "'metrics' is not a path such as /metrics"),
        (("--engine-metrics-path", "/a\r\nb"), "is not a path"),
    ],
)
def test_a_wrong_option_is_named(words, told):
    """With its value."""
    result = CliRunner().invoke(main, ["runtime", *words])
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("http://localhost:8000", "localhost", 8000, ""),
        ("http://10.0.0.1:8000/v/", "10.0.0.1", 8000, "/v"),
        ("http://[fd00::5]:8000", "fd00::5", 8000, ""),
        ("http://fd00::5:8000", "fd00::5", 8000, ""),
        ("http://engine", "engine", 80, ""),
    ],
)
def test_addresses_are_read(url, host, port, path):
    """An IPv6 address may lack brackets, as Kubernetes puts it into $(POD_IP)."""
    address = Address(url)
    assert (address.host, address.port, address.path) == (host, port, path)
    with pytest.raises(AddressError):
        Address(url.replace("http", "https"))
