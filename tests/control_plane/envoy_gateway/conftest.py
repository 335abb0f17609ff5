"""The fixture of these tests."""

from behind_envoy_gateway import site  # noqa: F401 - a fixture
