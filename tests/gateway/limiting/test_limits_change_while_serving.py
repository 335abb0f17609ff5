"""A changed limit applies immediately, also to requests in flight; what was used stays used."""


async def test_a_limit_that_is_taken_away_limits_nothing(
    start_gateway, start_endpoint, per_month, prompt, counted
):
    """The very next request goes, without a word of limits (R33)."""
    endpoint = await start_endpoint(counted(8, 1))
    gateway = await start_gateway(endpoint, limits=per_month(10, 10))
    await gateway.ask(prompt(8))
    assert (await gateway.ask(prompt(8))).status == 429
    gateway.serve([endpoint])
    response = await gateway.ask(prompt(8))
    assert response.status == 200
    assert not [name for name, _ in response.headers if name.startswith("x-ratelimit")]


async def test_one_side_can_be_taken_away(start_gateway, start_endpoint, per_month, prompt, counted, left):
    """The other goes on from where it was."""
    endpoint = await start_endpoint(counted(8, 4))
    gateway = await start_gateway(endpoint, limits=per_month(10, 10))
    await gateway.ask(prompt(8))
    gateway.serve([endpoint], per_month(output=10))
    assert left(gateway) == (None, 6)
    assert (await gateway.ask(prompt(8))).status == 200
    assert left(gateway) == (None, 2)


async def test_a_limit_that_changes_does_not_fill_up(
    start_gateway, start_endpoint, per_month, prompt, counted, left
):
    """A higher one gives so much more, a lower one leaves nothing, and no debt."""
    endpoint = await start_endpoint(counted(8, 1))
    gateway = await start_gateway(endpoint, limits=per_month(input=10))
    await gateway.ask(prompt(8))
    gateway.serve([endpoint], per_month(input=10))
    assert left(gateway) == (2, None)
    gateway.serve([endpoint], per_month(input=20))
    assert left(gateway) == (12, None)
    gateway.serve([endpoint], per_month(input=5))
    assert left(gateway) == (0, None)


async def test_a_route_that_was_made_anew_begins_full(
    start_gateway, start_endpoint, per_month, prompt, counted, left
):
    """Another uid is another route, whatever its name."""
    endpoint = await start_endpoint(counted(8, 1))
    gateway = await start_gateway(endpoint, limits=per_month(input=10), uid="1")
    await gateway.ask(prompt(8))
    gateway.serve([endpoint], per_month(input=10), uid="1")
    assert left(gateway) == (2, None)
    gateway.serve([endpoint], per_month(input=10), uid="2")
    assert left(gateway) == (10, None)


async def test_a_request_under_way_is_settled_by_the_limit_of_now(
    gateway, endpoint, per_month, prompt, counted, left
):
    """It was reserved by the old one; a limit that came after its arrival counts it not at all."""
    gateway.serve([endpoint], per_month(input=100))
    client = await gateway.connect()
    client.post(prompt(8))
    call = await endpoint.call()
    gateway.serve([endpoint], per_month(200, 300))
    assert left(gateway) == (192, 300)
    call.answer(counted(50, 70))
    await client.response()
    assert left(gateway) == (150, 300)


async def test_a_limit_taken_away_amid_a_request_is_forgotten(gateway, endpoint, per_month, prompt, counted):
    """The request ends as any other."""
    gateway.serve([endpoint], per_month(input=100))
    client = await gateway.connect()
    client.post(prompt(8))
    call = await endpoint.call()
    gateway.serve([endpoint])
    call.answer(counted(8, 1))
    assert (await client.response()).status == 200
    assert gateway.shell.plane.routes.limits.statistics() == {"routes": 0, "reserved": 0}
