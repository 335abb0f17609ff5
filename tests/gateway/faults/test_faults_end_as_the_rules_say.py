"""Each fault, in each framing, with and without another endpoint: what the client gets, and what remains.

The rules behind the table:

- `unreached`, `lost`, `late`, `status`: no byte was sent to the client, and the endpoint sent no response, or
  one that allows a retry. Another endpoint gets the request. Without one, the client gets 503, 502, 504, or
  the endpoint's own response.
- `begun`, `stuck`: part of the head arrived, and the work may be done: 502 or 504, without a retry.
- `invalid`: the endpoint's response is not HTTP. It may have done the work: 502, without a retry.
- `broken`, `silent`: part of the response was sent to the client, so there is no retry. Complete events of a
  stream are followed by an error event; any other response is `cut`, and so are events after the last chunk.
- `served`: the client has the response, whatever else happened.
"""

import json

import pytest

import faults

TABLE = """
fault                               | plain     | chunks    | events    | unframed

refuses connections                 | unreached | unreached | unreached | unreached
takes the request and hangs         | late      | late      | late      | late
closes amid the request             | lost      | lost      | lost      | lost
resets amid the request             | lost      | lost      | lost      | lost
closes after the request            | lost      | lost      | lost      | lost
resets after the request            | lost      | lost      | lost      | lost

closes in the status line           | begun     | begun     | begun     | begun
resets in the status line           | begun     | begun     | begun     | begun
hangs in the status line            | stuck     | stuck     | stuck     | stuck
closes in the headers               | begun     | begun     | begun     | begun
resets in the headers               | begun     | begun     | begun     | begun
hangs in the headers                | stuck     | stuck     | stuck     | stuck
closes at the end of the head       | begun     | begun     | begun     | begun
resets at the end of the head       | begun     | begun     | begun     | begun
hangs at the end of the head        | stuck     | stuck     | stuck     | stuck

says 502                            | status    | status    | status    | status
says 503                            | status    | status    | status    | status
says 504                            | status    | status    | status    | status
says 500                            | status    | status    | status    | status
says 429                            | status    | status    | status    | status

speaks another protocol             | invalid   | invalid   | invalid   | invalid
sends a bad status line             | invalid   | invalid   | invalid   | invalid
sends a bad header                  | invalid   | invalid   | invalid   | invalid
sends a long header                 | invalid   | invalid   | invalid   | invalid
sends headers without end           | invalid   | invalid   | invalid   | invalid
sends 100 without end               | invalid   | invalid   | invalid   | invalid

closes before the body              | broken    | broken    | broken    | -
resets before the body              | broken    | broken    | broken    | broken
hangs before the body               | silent    | silent    | silent    | silent
closes in the body                  | broken    | broken    | broken    | -
resets in the body                  | broken    | broken    | broken    | broken
hangs in the body                   | silent    | silent    | silent    | silent
closes in a chunk size              | -         | broken    | broken    | -
resets in a chunk size              | -         | broken    | broken    | -
hangs in a chunk size               | -         | silent    | silent    | -
closes between chunks               | -         | broken    | broken    | -
resets between chunks               | -         | broken    | broken    | -
hangs between chunks                | -         | silent    | silent    | -
closes in a character               | broken    | broken    | broken    | -
resets in a character               | broken    | broken    | broken    | broken
hangs in a character                | silent    | silent    | silent    | silent
closes before the last byte         | broken    | broken    | cut       | -
resets before the last byte         | broken    | broken    | cut       | broken
hangs before the last byte          | silent    | silent    | cut       | silent
announces too much                  | broken    | -         | -         | -
announces too little                | invalid   | -         | -         | -
sends a bad chunk size              | -         | invalid   | invalid   | -

answers                             | served    | served    | served    | -
answers before it reads the request | served    | served    | served    | -
answers byte by byte                | served    | served    | served    | -
closes after the answer             | served    | served    | served    | served
resets after the answer             | served    | served    | served    | broken
hangs after the answer              | served    | served    | served    | silent
"""

FORMS = {
    "plain": faults.plain('{"text":"Le canal est très long, et le débit faible."}'.encode()),
    "chunks": faults.chunked([b'{"text":"one, ', b"two, ", "trois, été".encode(), b', five"}']),
    "events": faults.events(["un", "très", "été"]),
    "unframed": faults.unframed('{"text":"Le canal est très long, et le débit faible."}'.encode()),
}
WELL = faults.plain(b'{"text":"of the other endpoint"}')

# What the client gets if there is no other endpoint: status, error code.
REFUSALS = {
    "unreached": (503, "endpoint_unreachable"),
    "lost": (502, "upstream_failed"),
    "begun": (502, "upstream_failed"),
    "late": (504, "upstream_timeout"),
    "stuck": (504, "upstream_timeout"),
    "invalid": (502, "upstream_invalid"),
}
RETRIED = {"unreached", "lost", "late", "status"}
BROKEN = {"broken": "upstream_lost", "silent": "idle_timeout"}


def cells():
    """Fault, form and ending of every cell that is not empty."""
    heading, *rows = [line for line in TABLE.splitlines() if line]
    forms = [part.strip() for part in heading.split("|")][1:]
    for row in rows:
        fault, *endings = [part.strip() for part in row.split("|")]
        for form, ending in zip(forms, endings, strict=True):
            if ending != "-":
                yield pytest.param(fault, form, ending, id=f"{fault}-{form}".replace(" ", "_"))


@pytest.mark.parametrize("has_other", [True, False], ids=["another", "alone"])
@pytest.mark.parametrize(("fault", "form", "ending"), list(cells()))
async def test_cell(
    request_bytes,
    start_gateway,
    start_faulty,
    connect,
    clock,
    descriptors,
    nothing_is_left,
    fault,
    form,
    ending,
    has_other,
):
    """The client's view, the attempts, one account of it, and nothing left open."""
    answer = FORMS[form]
    faulty = await start_faulty(None if fault == "refuses connections" else faults.CATALOGUE[fault](answer))
    other = await start_faulty(faults.Fault(WELL.wire))
    if fault == "refuses connections":
        faulty.refuse()
    gateway = await start_gateway(faulty, *[other] * has_other)
    files = descriptors()
    client = await connect(gateway)
    stream = form == "events"
    client.transport.write(request_bytes({"model": "m", "stream": stream, "prompt": "x" * 300_000}))
    await clock(gateway)
    seen = await client.view()
    client.close()

    is_retried = ending in RETRIED and has_other
    if is_retried:
        assert (seen.status, seen.body, seen.end) == (200, WELL.body, "kept")
    elif ending == "served":
        assert (seen.status, seen.body) == (200, answer.body)
        assert seen.end == ("closed" if form == "unframed" else "kept")
    elif ending in BROKEN:
        is_told = form == "events"
        assert _is_told_why(seen, answer, BROKEN[ending]) if is_told else _is_cut_off(seen, answer)
    elif ending == "cut":
        assert _is_cut_off(seen, answer)
    elif ending in REFUSALS:
        assert (seen.status, json.loads(seen.body)["error"]["code"]) == REFUSALS[ending]
        assert seen.end == "kept"
    else:
        assert (seen.status, seen.end) == (int(fault.removeprefix("says ")), "kept")
        assert seen.body == faults.CATALOGUE[fault](answer).sent.partition(b"\r\n\r\n")[2]

    assert len(other.requests) == is_retried
    (pool,) = gateway.shell.plane.pools.values()
    assert (pool.budget.granted, pool.budget.denied) == (is_retried, 0)
    await nothing_is_left(gateway, files)
    (line,) = gateway.log_lines()
    assert f'" {seen.status} outcome=' in line
    assert f" attempts={1 + is_retried} " in line
    assert gateway.settled == 1


def _is_cut_off(seen, answer):
    return seen.status == 200 and answer.body.startswith(seen.body) and seen.end == "cut"


def _is_told_why(seen, answer, code):
    """The events that came whole, then the error, and the end of the connection."""
    *whole, last, nothing = seen.body.split(b"\n\n")
    assert (seen.status, seen.end, nothing) == (200, "closed", b"")
    assert answer.body.startswith(b"".join(event + b"\n\n" for event in whole))
    return json.loads(last.removeprefix(b"data: "))["error"]["code"] == code


def test_every_fault_has_its_row():
    """Nothing of the catalogue is left out of the table."""
    rows = {line.partition("|")[0].strip() for line in TABLE.splitlines() if line}
    assert rows - {"fault", "refuses connections"} == set(faults.CATALOGUE)
