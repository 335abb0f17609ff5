"""Bodies of any size pass through HTTP/2 flow-control windows, at the pace of the reader."""

import pytest
from h2.settings import SettingCodes

pytestmark = pytest.mark.every_loop

PROMPT = "x" * 3_000_000
ANSWER = b"0123456789abcdef" * 200_000


@pytest.fixture
async def serving(start_gateway, start_http2_endpoint):
    async def start(behave=None, window=None):
        """With a connection to the endpoint on which the window is known."""
        endpoint = await start_http2_endpoint(lambda call: call.answer(), window=window)
        gateway = await start_gateway()
        gateway.serve([endpoint], http2=True)
        await gateway.ask({"model": "m"})
        endpoint.begun.clear()
        endpoint.calls.clear()
        endpoint.behave = behave
        return gateway, endpoint

    return start


@pytest.mark.parametrize(("window", "size"), [(None, len(PROMPT)), (1000, 50_000), (1 << 24, len(PROMPT))])
async def test_a_long_prompt_waits_for_the_endpoints_windows(serving, window, size):
    """However small they are, or larger than any frame."""
    gateway, endpoint = await serving(lambda call: call.answer(b"served"), window=window)
    response = await gateway.ask({"model": "m", "prompt": PROMPT[:size]})
    assert response.body == b"served"
    (call,) = endpoint.calls
    assert call.json == {"model": "m", "prompt": PROMPT[:size]}
    assert len(endpoint.connections) == 1


async def test_windows_may_grow_amid_a_prompt(serving, eventually):
    """The endpoint takes nothing until it says so, by another setting and by more room for all streams."""
    gateway, endpoint = await serving()
    (connection,) = endpoint.connections
    connection.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
    connection.flush()
    await eventually(lambda: connection.h2.local_settings.initial_window_size == 0)
    client = await gateway.connect()
    client.post({"model": "m", "prompt": PROMPT})
    await eventually(lambda: endpoint.begun)
    assert endpoint.begun[0].body == b""
    connection.h2.increment_flow_control_window(1 << 24)
    connection.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1 << 24})
    connection.flush()
    call = await endpoint.call()
    assert len(call.body) > len(PROMPT)
    call.answer()
    assert (await client.response()).status == 200


@pytest.mark.parametrize("has_length", [True, False])
async def test_long_answers_come_whole_at_the_clients_pace(serving, has_length):
    """The endpoint waits for a client with small buffers that reads slowly."""

    def behave(call):
        if has_length:
            call.answer(ANSWER)
        else:
            call.head()
            call.write(ANSWER)
            call.end()

    gateway, _ = await serving(behave)
    client = await gateway.connect(receive_buffer=4096)
    for _ in range(2):
        client.post()
        assert (await client.response()).body == ANSWER


async def test_an_endpoint_that_answers_before_it_read_the_prompt_is_not_asked_on(serving, eventually):
    """Its answer counts; what is left of the request ends with the connection."""
    gateway, endpoint = await serving(window=1000)
    client = await gateway.connect()
    client.post({"model": "m", "prompt": PROMPT})
    await eventually(lambda: endpoint.begun)
    (connection,) = endpoint.connections
    connection.takes_bodies = False
    endpoint.begun[0].answer(b"too long", status=413)
    response = await client.response()
    assert (response.status, response.body) == (413, b"too long")
    await connection.lost


async def test_a_long_form_is_sent_while_it_comes(start_gateway, start_http2_endpoint):
    """At the pace of the endpoint's window."""
    endpoint = await start_http2_endpoint(lambda call: call.answer(b"{}"))
    gateway = await start_gateway(endpoint, http2=True)
    part = b'--X\r\ncontent-disposition: form-data; name="%b"\r\n\r\n'
    body = part % b"model" + b"m\r\n" + part % b"prompt" + b"a" * 3_000_000 + b"\r\n--X--\r\n"
    kind = {"content-type": "multipart/form-data; boundary=X"}
    assert (await gateway.ask(body, "/v1/audio/transcriptions", **kind)).status == 200
    (call,) = endpoint.calls
    assert bytes(call.body) == body
    assert not gateway.shell.services.bodies.held
