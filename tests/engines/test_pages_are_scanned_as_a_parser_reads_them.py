"""Samples that are looked up by name are those that a parser of the whole page finds."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector, CollectorRegistry

from headgate.engines.page import MAX_LABEL_BYTES, MAX_LINE_BYTES, MAX_LINES, Page, PageTooLargeError

NAMES = ("vllm:waiting", "vllm:waiting_by_reason", "vllm:wait", "vllm:running", "running")
LABEL_VALUES = st.text(st.sampled_from('ab{}",\\\n #=é_ '), max_size=12)
SERIES = st.dictionaries(
    st.tuples(LABEL_VALUES, LABEL_VALUES), st.floats(allow_nan=False) | st.integers(-9, 10**12), max_size=5
)
FAMILIES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.booleans(), LABEL_VALUES, SERIES),
    max_size=5,
    unique_by=lambda f: f[0],
)


class Families(Collector):
    """Whatever families it is given."""

    def __init__(self, families):
        self.families = families

    def collect(self):
        for name, is_histogram, text, series in self.families:
            if is_histogram:
                family = HistogramMetricFamily(name, text, labels=["engine", "model_name"])
                for labels, value in series.items():
                    family.add_metric(list(labels), [("0.1", 1), ("+Inf", 2)], value)
            else:
                family = GaugeMetricFamily(name, text, labels=["engine", "model_name"])
                for labels, value in series.items():
                    family.add_metric(list(labels), value)
            yield family


def page_of(families):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(families))
    return generate_latest(registry)


@given(FAMILIES)
def test_every_sample_is_found_with_its_labels_and_value(families):
    """Whatever is in labels and help texts, and however much one name is the beginning of another."""
    text = page_of(families)
    parsed = [sample for family in text_string_to_metric_families(text.decode()) for sample in family.samples]
    page = Page(text)
    for name in [*NAMES, *(name + end for name in NAMES for end in ("_sum", "_count"))]:
        found = [(sample.labels, sample.value) for sample in page.samples(name)]
        assert found == [(sample.labels, sample.value) for sample in parsed if sample.name == name]


@given(
    st.binary(max_size=400), st.lists(st.sampled_from([b"\n", b"waiting", b"{", b"}", b'"', b" 1", b'a="']))
)
def test_a_look_up_ends_whatever_the_page_is(noise, pieces):
    """Values that cannot be read are NaN, and nothing is raised."""
    text = b"waiting 1\n" + noise + b"".join(pieces) + noise
    for sample in Page(text).samples("waiting"):
        assert isinstance(sample.labels, dict)
        assert isinstance(sample.value, float)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("waiting 3", 3.0),
        ("waiting 3 1700000000000", 3.0),
        ("waiting\t3\r", 3.0),
        ('waiting {a="b"} 3', 3.0),
        ('waiting{a="b",} 3', 3.0),
        ('waiting{a="}"}3', 3.0),
        ('waiting{a="b"} 3 # {trace_id="x"} 7', 3.0),
        ("waiting +Inf", math.inf),
        ("waiting 1e3", 1000.0),
    ],
)
def test_lines_are_read_in_every_form_of_the_format(line, value):
    """Time stamps and examples behind the value are not taken for it."""
    (sample,) = Page(line.encode()).samples("waiting")
    assert sample.value == value


@pytest.mark.parametrize(
    "line",
    [
        "waiting",
        "waiting ",
        "waiting 1_000",
        "waiting three",
        'waiting{a="b} 3',
        'waiting{a="b" 3',
        "waiting{} {} 3",
        'waiting{a="' + "x" * MAX_LINE_BYTES + '"} 3',
    ],
)
def test_lines_that_cannot_be_read_have_no_value(line):
    """They are told from lines that are not there, and never taken for 0."""
    assert all(math.isnan(sample.value) for sample in Page(line.encode()).samples("waiting"))


@pytest.mark.parametrize(
    "line",
    [
        b"waiting" + b" " * 65_000,
        b"waiting{" + b"a" * 65_000 + b"} 1",
        b"waiting{" + b"a " * 32_000 + b"} 1",
        b"waiting{" + b'a="' * 20_000 + b'"} 1',
        b'waiting{a="' + b"\\\\" * 32_000 + b'"} 1',
        b'waiting{a="' + b"b" * 65_000,
        b"waiting" + b"{" * 65_000,
    ],
)
def test_no_line_takes_longer_than_its_length_asks_for(line):
    """With the square of it, one such line would take minutes, and nothing else be done meanwhile."""
    began = time.process_time()
    for sample in Page(line).samples("waiting"):
        assert isinstance(sample.labels, dict)
    assert time.process_time() - began < 30


@pytest.mark.parametrize(
    ("lines", "label"),
    [(MAX_LINES, ""), (MAX_LABEL_BYTES // 1000, "x" * 1000)],
    ids=["lines", "labels"],
)
def test_a_page_of_too_many_lines_or_labels_is_refused(lines, label):
    """A page cannot make the gateway read for as long as it likes, in one family or in several."""
    page = "".join(f'{("waiting", "running")[n % 2]}{{a="{label}"}} 1\n' for n in range(lines)).encode()
    few = Page(page[: len(page) // 2])
    assert len(few.samples("waiting")) + len(few.samples("running")) >= lines // 2
    many = Page(page + b'waiting{a="1"} 1\n')
    with pytest.raises(PageTooLargeError, match="more than"):
        many.samples("waiting"), many.samples("running")
