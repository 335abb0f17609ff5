"""The fixture of these tests."""

from conforming import site  # noqa: F401 - a fixture
