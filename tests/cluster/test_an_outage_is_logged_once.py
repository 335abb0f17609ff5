"""Whoever follows many kinds writes one line about a server that does not answer, and one when it is back."""

import logging
import socket

import pytest

from headgate import api
from headgate.cluster import Client, Informer

NAMESPACES = ("a", "b", "c", "d", "e")


def _lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """But for those about watches that the server of the test ended in good order, and at once."""
    return [
        (each.levelname, each.getMessage())
        for each in caplog.records
        if each.levelno > logging.DEBUG and "the watch ended at once" not in each.getMessage()
    ]


async def test_a_server_that_is_not_there_is_named_once(kit, caplog, tmp_path):
    """The line has the address and the kubeconfig; each kind's own attempts are for debugging."""
    caplog.set_level(logging.DEBUG, "headgate.cluster")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        file = tmp_path / "kubeconfig"
        file.write_text(
            f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n"
            "contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
        )
        async with Client.from_kubeconfig(file) as client:
            informers = [Informer(client, api.ConfigMap, name, pacing=kit.quick) for name in NAMESPACES]
            async with kit.running(*(each.run() for each in informers)):
                await kit.eventually(lambda: all(each.statistics().restarts >= 3 for each in informers))
    [(level, line)] = _lines(caplog)
    assert level == "WARNING"
    assert line.startswith(f"the API server at {url} (kubeconfig {file}) does not answer: ConnectError: ")
    assert line.endswith("; no objects are known yet, and it is asked again until it answers")


async def test_an_outage_begins_and_ends_with_one_line(server, client, kit, caplog):
    """All watches break, all kinds try again, and all come back: that is one outage. So is the next one."""
    caplog.set_level(logging.DEBUG, "headgate.cluster")
    informers = [Informer(client, api.ConfigMap, name, pacing=kit.quick) for name in NAMESPACES]
    told = []
    async with kit.running(*(each.run() for each in informers)):
        for outage in range(1, 3):
            await kit.eventually(lambda times=outage: server.watches >= times * len(NAMESPACES))
            before = [each.statistics().restarts for each in informers]
            server.down = True
            server.drop()
            await kit.eventually(
                lambda old=before: all(
                    each.statistics().restarts >= restarts + 3
                    for each, restarts in zip(informers, old, strict=True)
                )
            )
            server.down = False
            server.put(f"object-{outage}")
            await kit.eventually(
                lambda objects=outage: all(each.statistics().objects == objects for each in informers)
            )
            told += [
                ("WARNING", "the objects that were read stay in use"),
                ("INFO", f"the API server at {server.url} answers again"),
            ]
    lines = _lines(caplog)
    assert [level for level, _ in lines] == [level for level, _ in told]
    assert all(part in line for (_, line), (_, part) in zip(lines, told, strict=True))
