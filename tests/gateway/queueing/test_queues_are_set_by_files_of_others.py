"""The picker's file and Kthena's environment say how requests wait, in place of the settings."""

import msgspec

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
    pool = await start_pool(scheduling=PICKER, queue_max_in_flight=100, flow_control=False)
    await pool.ask("first")
    for tenant, prompt in (("a", "a1"), ("a", "a2"), ("b", "b1")):
        await pool.wait(prompt, x_headgate_fairness_id=tenant)
    assert [await pool.served() for _ in range(4)] == ["first", "a1", "b1", "a2"]
    assert pool.queue.settings.band_of(7).max_requests == 2


async def test_served_sessions_go_first(start_pool):
    """R39: one that was answered lately before those that are new, by Kthena's header."""
    pool = await start_pool(kthena_environment=SESSIONS)
    await pool.ask("first", x_session_id="known")
    await pool.wait("new", x_session_id="new")
    await pool.wait("again", x_session_id="known")
    assert [await pool.served() for _ in range(3)] == ["first", "again", "new"]


async def test_who_had_least_goes_first(start_pool):
    """R36: of two users in the queue the one without usage in the window, and a user's own in their order."""
    pool = await start_pool(kthena_environment=FAIR)
    await pool.ask("first", x_headgate_fairness_id="a")
    for user, prompt in (("a", "a1"), ("a", "a2"), ("b", "b1")):
        await pool.wait(prompt, x_headgate_fairness_id=user)
    call = await pool.endpoint.call()
    call.answer(b'{"usage": {"prompt_tokens": 900, "completion_tokens": 50, "total_tokens": 950}}')
    assert [await pool.served() for _ in range(3)] == ["b1", "a1", "a2"]


async def test_a_file_may_go(start_pool):
    """Those that wait go on waiting, by the settings."""
    pool = await start_pool(scheduling=PICKER)
    await pool.ask("first")
    await pool.wait("second")
    proxy = pool.gateway.proxy
    proxy.change(msgspec.structs.replace(proxy.settings, scheduling=None))
    assert pool.queue.settings.band_of(0).fairness == "deficit-round-robin"
    assert [await pool.served() for _ in range(2)] == ["first", "second"]
