"""docs/signals.md has every metric, field and limit as it is."""

import re
from pathlib import Path

import msgspec
import pytest

from headgate.api import signal_names
from headgate.controllers import prometheus_client
from headgate.controllers.autoscaling import pod_pages, prometheus, readings
from headgate.dataplane.objective_headers import OBJECTIVES_MS
from headgate.fleet import answer_sizes, estimator, pool_rates
from headgate.requests import pool_signals, traffic
from headgate.requests.pool_signals import Page, PoolSignals
from headgate.workers.signals import MAX_WATCHES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "signals.md").read_text()
WORDS = " ".join(PAGE.split())
KINDS = {name: "mean" if name in signal_names.MEANS else "sum" for name in signal_names.METRICS}


def test_every_metric_has_its_line_and_kind():
    """And its query."""
    rows = re.findall(r"^\| `(headgate:\w+)` \| (sum|mean) \|", PAGE, re.MULTILINE)
    assert dict(rows) == KINDS
    assert len(rows) == len(KINDS)
    queries = re.findall(r"^\| `(headgate:\w+)` \| `(?:sum|avg)\(", PAGE, re.MULTILINE)
    assert sorted(queries) == sorted(KINDS)


def test_queries_use_metrics_that_there_are():
    """As docs/metrics.md lists them, which is generated."""
    listed = set(re.findall(r"^\| `(\w+)` \|", (DOCS / "metrics.md").read_text(), re.MULTILINE))
    used = set(re.findall(r"headgate_gateway_\w+[a-z]", PAGE)) - {"headgate_gateway_pool"}
    assert len(used) >= 7
    assert used <= listed


def test_the_example_is_a_page_and_every_field_is_explained():
    example = re.search(r'^\{"is_ready.*\}$', PAGE, re.MULTILINE)
    assert example
    page = msgspec.json.decode(example[0], type=Page)
    assert msgspec.json.encode(page).decode() == example[0]
    explained = " ".join(re.findall(r"^\| (`.*) \|", PAGE, re.MULTILINE))
    for name in PoolSignals.__struct_fields__:
        assert (
            f"`{name}`" in explained or f"`pools[].{name}`" in explained or f"`headgate:{name}`" in explained
        )
    for name in Page.__struct_fields__:
        assert f"| `{name}" in PAGE or name == "pools"


@pytest.mark.parametrize(
    "said",
    [
        f"mean over the last {traffic.WINDOW_S:g} s",
        f"divided by {pool_signals.CLEARED_S:g} s",
        f"at most {pool_signals.MAX_BATCH}.",
        f"fit into one step ({estimator.STEP_TOKENS:,})",
        f"{1000 * pool_rates.PRIOR_TOKEN_S:g} ms for a prompt token, and {answer_sizes.USUAL_TOKENS} tokens",
        f"Up to {MAX_WATCHES} clients can watch",
        f"does not answer within {pod_pages.POD_S:g} s",
        f"more than {pod_pages.MAX_PAGE_BYTES >> 20} MiB",
        f"At most {pod_pages.MAX_OF_TARGET} Pods of a target are read at a time",
        f"and {pod_pages.MAX_OF_ALL} of all, so slow Pods",
        f"two readings at least {readings.SHORTEST_S:g} s apart",
        f"the {100 * readings.DEFAULT_QUANTILE:g}th percentile",
        f"`{prometheus.SUM}QUERY`",
        f"`{prometheus.MEAN}QUERY`",
        f"A query may have {prometheus_client.MAX_QUERY_CHARACTERS >> 10} KiB",
        f"its response {prometheus_client.MAX_RESPONSE_BYTES >> 10} KiB, "
        f"and each has {prometheus_client.QUERY_S:g} s",
        f"At most {prometheus_client.MAX_OF_ALL} are asked at a time",
        *(f"`{name.decode()}`" for name in OBJECTIVES_MS),
    ],
)
def test_figures_are_as_in_the_source(said):
    assert said in WORDS
