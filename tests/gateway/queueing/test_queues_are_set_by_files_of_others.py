"""The endpoint picker's file and Kthena's environment replace the queue settings."""

import pytest

PICKER = {
    "apiVersion": "llm-d.ai/v1alpha1",
    "kind": "EndpointPickerConfig",
    "featureGates": ["flowControl"],
    "plugins": [
        {"type": "concurrency-detector", "parameters": {"maxConcurrency": 1}},
        {"type": "queue-scorer"},
    ],
    "flowControl": {
        "saturationDetector": {"pluginRef": "concurrency-detector"},
        "defaultPriorityBand": {"maxRequests": "2"},
        "priorityBands": [{"priority": 0, "fairnessPolicyRef": "round-robin-fairness-policy"}],
    },
}
SESSIONS = {"ENABLE_SESSION_BOOST": "true", "SESSION_BOOST_INFLIGHT_PER_POD": "1"}
FAIR = {"ENABLE_FAIRNESS_SCHEDULING": "true", "FAIRNESS_MAX_CONCURRENT": "1"}


async def test_the_pickers_file_goes_before_the_settings(start_pool):
    """Its bound of one request, its bands; tenants take turns by its policy."""
    pool = await start_pool(scheduling_content=PICKER, queue_max_in_flight=100, queue_enabled=False)
    await pool.ask("first")
    for tenant, prompt in (("a", "a1"), ("a", "a2"), ("b", "b1")):
        await pool.wait(prompt, x_headgate_fairness_id=tenant)
    assert [await pool.served() for _ in range(4)] == ["first", "a1", "b1", "a2"]
    assert pool.queue.settings.band_of(7).max_requests == 2


async def test_served_sessions_go_first(start_pool):
    """R39: one that was answered lately before those that are new, by Kthena's header."""
    pool = await start_pool(queue_kthena_environment=SESSIONS)
    await pool.ask("first", x_session_id="known")
    await pool.wait("new", x_session_id="new")
    await pool.wait("again", x_session_id="known")
    assert [await pool.served() for _ in range(3)] == ["first", "again", "new"]


async def test_who_had_least_goes_first(start_pool):
    """R36: of two users in the queue the one without usage in the window, and a user's own in their order."""
    pool = await start_pool(queue_kthena_environment=FAIR)
    await pool.ask("first", x_headgate_fairness_id="a")
    for user, prompt in (("a", "a1"), ("a", "a2"), ("b", "b1")):
        await pool.wait(prompt, x_headgate_fairness_id=user)
    call = await pool.endpoint.call()
    call.answer(b'{"usage": {"prompt_tokens": 900, "completion_tokens": 50, "total_tokens": 950}}')
    assert [await pool.served() for _ in range(3)] == ["b1", "a1", "a2"]


async def test_the_pickers_file_says_how_long_endpoints_are_waited_for(start_pool, caplog, eventually):
    """And so does the log; the setting counts for nothing then."""
    flow = PICKER["flowControl"] | {"noEndpointRequestTTL": "45s"}
    pool = await start_pool(scheduling_content=PICKER | {"flowControl": flow}, queue_no_endpoint_wait_s=0)
    pool.gateway.serve([])
    await pool.wait("held")
    await eventually(lambda: "requests wait up to 45 s for one" in caplog.text)


@pytest.mark.parametrize("environment", [SESSIONS, FAIR])
async def test_what_kthena_has_no_name_for_is_as_the_settings_say(start_pool, environment):
    """With 0, a pool without endpoints holds nobody."""
    pool = await start_pool(queue_kthena_environment=environment, queue_no_endpoint_wait_s=0)
    pool.gateway.serve([])
    assert (await pool.gateway.ask()).status == 503


async def test_a_file_may_go(start_pool):
    """Those that wait go on waiting, by the settings."""
    pool = await start_pool(scheduling_content=PICKER)
    await pool.ask("first")
    await pool.wait("second")
    shell = pool.gateway.shell
    shell.change(shell.settings.replace(scheduling_content=None))
    assert pool.queue.settings.band_of(0).fairness == "deficit-round-robin"
    assert [await pool.served() for _ in range(2)] == ["first", "second"]
