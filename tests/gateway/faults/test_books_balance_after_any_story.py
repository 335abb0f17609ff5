"""Any sequence of clients, endpoints, time and changes: each request is settled once, and nothing leaks."""

import pytest
from hypothesis import settings
from request_stories import Stories

pytestmark = [pytest.mark.usefixtures("endless_turns"), pytest.mark.counts_calls]

TestStories = Stories.TestCase
TestStories.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
