"""Wherever a response is cut, even within a character or a chunk size, the client is notified."""

import json

import pytest

import faults

FORMS = {
    "plain": faults.plain('{"text":"été"}'.encode()),
    "chunks": faults.chunked([b'{"text":', '"été"}'.encode()]),
    "events": faults.events(["un", "été"]),
    "unframed": faults.unframed('{"text":"été"}'.encode()),
}
WELL = faults.plain(b'{"text":"of the other endpoint"}')
LAST_CHUNK = len(b"\r\n")
"""So many bytes before its end, a stream in chunks has had the last of them: no event can follow."""


@pytest.mark.parametrize("then", ["close", "reset"])
@pytest.mark.parametrize("form", FORMS)
async def test_cut(
    request_bytes,
    start_gateway,
    start_faulty,
    connect,
    descriptors,
    nothing_is_left,
    without_bounds,
    form,
    then,
):
    """Before its first byte, another endpoint answers; in the head, the work may be done, and nobody else is
    asked to do it again; in the body, the answer is not made whole."""
    answer = FORMS[form]
    faulty, other = await start_faulty(), await start_faulty(faults.Fault(WELL.wire))
    gateway = await start_gateway(
        faulty, other, settings={"endpoints_ejection_failures": 0, "scheduling_policy": "least-work"}
    )
    files = descriptors()
    for place, fault in faults.every_cut(answer, then):
        without_bounds(gateway)
        faulty.choose = lambda _, fault=fault: fault
        client = await connect(gateway)
        client.transport.write(request_bytes({"model": "m", "stream": form == "events"}))
        seen = await client.view()
        client.close()
        if place == 0:
            assert (seen.status, seen.body, seen.end) == (200, WELL.body, "kept")
        elif place < len(answer.head):
            assert (seen.status, json.loads(seen.body)["error"]["code"]) == (502, "upstream_failed"), place
        elif place == len(answer.wire) and form != "unframed":
            assert (seen.status, seen.body, seen.end) == (200, answer.body, "kept"), place
        elif form == "unframed" and then == "close":
            # Nobody can tell: such an answer ends with its connection.
            assert (seen.status, seen.body, seen.end) == (200, fault.sent[len(answer.head) :], "closed"), (
                place
            )
        elif form == "events" and place < len(answer.wire) - LAST_CHUNK:
            assert seen.end == "closed", place
            *events, last, _ = seen.body.split(b"\n\n")
            assert answer.body.startswith(b"".join(event + b"\n\n" for event in events)), place
            assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "upstream_lost", place
        else:
            assert (seen.status, seen.end) == (200, "cut"), place
            assert answer.body.startswith(seen.body), place
    assert len(other.requests) == 1
    await nothing_is_left(gateway, files)
    assert gateway.settled == len(gateway.log_lines()) == len(answer.wire) + 1
