"""Request headers that control queueing; no value from a client does harm."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.dataplane.queueing import queue_hints
from headgate.dataplane.trust import Networks, Peer
from headgate.gateway import GatewaySettings
from headgate.gateway.request import ParsedHead, Request
from headgate.requests.queueing.hints import QueueHints

TRUSTED, ANYONE = Peer("10.0.0.1", Networks(["10.0.0.0/8"])), Peer("192.0.2.1", Networks([]))


def read(*headers, peer=ANYONE, is_stream=True, is_http_1_0=False, **settings):
    lines = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    head = ParsedHead(b"POST", b"/v1/completions", lines, is_http_1_0, peer, b"gateway")
    request = Request(head, b"", True, 0.0)
    chosen = GatewaySettings().replace(**settings)
    return queue_hints.read(request, chosen, is_stream=is_stream)


def test_a_request_that_says_nothing():
    """It is of the flow of its client's address, and in no hurry."""
    assert read() == QueueHints(flow="192.0.2.1")
    assert read(peer=Peer("", Networks([]))) == QueueHints(flow="default-flow")


@pytest.mark.parametrize(
    "name",
    ["x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id", "x-headgate-fairness-id"],
)
def test_fairness_ids_name_the_flow(name):
    """Under each of the names that are in use."""
    assert read((name, "team-a"), peer=TRUSTED).flow == "team-a"


def test_the_fairness_id_comes_before_the_tenant():
    """A tenant is who a trusted proxy says; its own word of flows is finer."""
    tenant, own = ("x-tenant", "acme"), ("x-headgate-fairness-id", "batch")
    assert read(tenant, peer=TRUSTED, queue_tenant_header="X-Tenant").flow == "acme"
    assert read(tenant, own, peer=TRUSTED, queue_tenant_header="X-Tenant").flow == "batch"
    assert read(tenant, queue_tenant_header="X-Tenant").flow == "192.0.2.1"


def test_only_the_trusted_may_be_believed():
    """A client cannot choose its flow itself, unless the settings say so."""
    own = ("x-headgate-fairness-id", "mine")
    assert read(own).flow == "192.0.2.1"
    assert read(own, peer=TRUSTED).flow == "mine"
    assert read(own, queue_fairness_ids_from="anyone").flow == "mine"


@pytest.mark.parametrize(
    "header",
    [
        ("authorization", "Bearer sk-1"),
        ("authorization", "bearer  sk-1"),
        ("x-api-key", "sk-1"),
        ("api-key", "sk-1"),
    ],
)
def test_an_api_key_is_a_flow_that_does_not_tell_it(header):
    """However it is sent; another key is another flow, and the address is told beside it."""
    found = read(header)
    assert found.flow == read(("x-api-key", "sk-1")).flow
    assert found.flow.startswith("key-")
    assert "sk-1" not in found.flow
    assert found.address == "192.0.2.1"
    assert read(("x-api-key", "sk-2")).flow != found.flow


def test_one_host_has_one_ipv6_network():
    """Of which it can use every address."""
    flows = {read(peer=Peer(f"2001:db8::{each}", Networks([]))).flow for each in range(1, 9)}
    assert flows == {"2001:db8::/64"}


def test_the_client_behind_a_trusted_proxy_is_meant():
    """And not the proxy."""
    assert read(("x-forwarded-for", "198.51.100.7"), peer=TRUSTED).flow == "198.51.100.7"
    assert read(("x-forwarded-for", "198.51.100.7")).flow == "192.0.2.1"


def test_long_ids_are_cut():
    """What is kept and shown of a client's word is bounded."""
    assert (
        read(("x-headgate-fairness-id", "x" * 5000), peer=TRUSTED).flow
        == "x" * queue_hints.MAX_FLOW_CHARACTERS
    )


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (("x-stainless-read-timeout", "600"), 600),
        (("x-stainless-read-timeout", "12.5"), 12.5),
        (("x-stainless-timeout", "30"), 30),
        (("x-request-timeout-ms", "1500"), 1.5),
        (("x-envoy-expected-rq-timeout-ms", "15000"), 15),
        (("x-stainless-timeout", "0"), math.inf),
        (("x-stainless-timeout", "NOT_GIVEN"), math.inf),
        (("x-stainless-timeout", "nan"), math.inf),
        (("x-request-timeout-ms", "1e400"), math.inf),
        (("x-request-timeout-ms", "-1"), math.inf),
    ],
)
def test_clients_say_how_long_they_wait(header, seconds):
    """As the SDKs of OpenAI and Anthropic and Envoy say it; what is no time counts for none."""
    assert read(header).patience_s == seconds


def test_the_shortest_patience_counts():
    """Whoever gives up first ends the request."""
    assert read(("x-request-timeout-ms", "9000"), ("x-stainless-timeout", "5")).patience_s == 5


def test_objectives_of_first_tokens():
    """Milliseconds, under both names."""
    assert read(("x-slo-ttft-ms", "250")).objective_s == 0.25
    assert read(("x-llm-d-slo-ttft-ms", "2000.5")).objective_s == 2.0005


def test_progress_is_for_streams_that_have_chunks():
    """QueueHints for by a header; an SDK's patience with silence does not count then."""
    wanted, patience = ("x-headgate-progress", "true"), ("x-stainless-timeout", "10")
    assert read(wanted).wants_progress
    assert not read(("x-headgate-progress", "no")).wants_progress
    assert not read(wanted, is_stream=False).wants_progress
    assert not read(wanted, is_http_1_0=True).wants_progress
    assert read(wanted, patience).patience_s == math.inf
    assert read(wanted, ("x-request-timeout-ms", "10000")).patience_s == 10


NAMES = st.sampled_from(sorted(name.decode() for name in queue_hints._KNOWN))


@given(st.lists(st.tuples(NAMES, st.text(st.characters(max_codepoint=255), max_size=300)), max_size=12))
def test_nothing_that_clients_say_is_believed_blindly(headers):
    """Times are above 0 or none, names are short, and nothing is raised."""
    found = read(*headers)
    assert 0 < len(found.flow) <= queue_hints.MAX_FLOW_CHARACTERS
    assert found.objective_s > 0
    assert found.patience_s > 0
