"""The tokens of images are those of the models' own processors, and sizes are read as others read them."""

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from headgate.requests.bodies import image_sizes, image_tokens

SIDES = st.one_of(st.integers(1, 5000), st.sampled_from((1, 2**16, 2**31, 2**32 - 1)))
MODELS = (
    "Qwen/Qwen2-VL-7B-Instruct", "Qwen/Qwen2.5-VL-72B-Instruct-AWQ", "Qwen/Qwen3-VL-8B-Instruct",
    "llava-hf/llava-1.5-7b-hf", "llava-hf/llava-v1.6-mistral-7b-hf", "mistral-community/pixtral-12b",
    "mistralai/Mistral-Small-3.1-24B-Instruct-2503", "OpenGVLab/InternVL2-2B", "google/gemma-3-27b-it",
    "gpt-4o", "gpt-4o-mini", "gpt-4.1-mini", "gpt-4.1-nano", "claude-sonnet-4", "some-model",
)  # fmt: skip


@pytest.mark.parametrize(
    ("model", "size", "tokens"),
    [
        # vLLM's own test of the model, with an image of this size
        ("Qwen/Qwen2-VL-2B-Instruct", (1300, 876), 1426),
        ("Qwen/Qwen2.5-VL-7B-Instruct", (10, 10), 4),
        ("qwen2_5-vl", (28, 28), 64),  # no such name: the rule of unknown models
        ("Qwen/Qwen2.5-VL-7B-Instruct", (20_000, 20_000), 127 * 127),
        ("Qwen/Qwen3-VL-8B-Instruct", (1024, 768), 32 * 24),
        ("Qwen/Qwen3-VL-8B-Instruct", (64, 64), 64),
        ("llava-hf/llava-1.5-7b-hf", (5000, 20), 576),
        ("llava-hf/llava-v1.6-mistral-7b-hf", (336, 336), 1176),
        ("llava-hf/llava-v1.6-mistral-7b-hf", (672, 672), 2928),
        ("mistral-community/pixtral-12b", (1024, 1024), 64 * 65),
        ("mistral-community/pixtral-12b", (2048, 1024), 32 * 65),
        ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", (1540, 1540), 55 * 56),
        # vLLM's own test of the model: four tiles and the whole
        ("OpenGVLab/InternVL2-2B", (896, 896), 5 * 256),
        ("OpenGVLab/InternVL3-8B", (448, 448), 256),
        ("OpenGVLab/InternVL3-8B", (4480, 448), 11 * 256),
        ("google/gemma-3-27b-it", (4000, 3000), 256),
        # the examples of OpenAI's page
        ("gpt-4o", (1024, 1024), 765),
        ("gpt-4o", (2048, 4096), 1105),
        ("gpt-4.1-mini", (1024, 1024), 1659),
        ("gpt-4o-mini", (100, 100), 255),
        # the examples of Anthropic's page
        ("claude-sonnet-4", (200, 200), 54),
        ("claude-sonnet-4", (1000, 1000), 1334),
        ("some-model", (1024, 768), 768),
    ],
)
def test_known_counts(model, size, tokens):
    assert image_tokens.tokens(image_tokens.rule_of(model), *size) == tokens


@given(st.sampled_from(MODELS), SIDES, SIDES)
def test_counts_are_bounded(model, width, height):
    """Whatever size an image claims."""
    found = image_tokens.tokens(image_tokens.rule_of(model), width, height)
    assert 1 <= found <= image_tokens.MAX_TOKENS


@pytest.mark.parametrize("size", [(1, 1), (640, 480), (3000, 2), (17, 1999)])
@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("PNG", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("GIF", {}),
        ("WEBP", {"quality": 50}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0"}),
    ],
)
def test_sizes_are_those_of_the_files(size, form, options):
    """As a real encoder writes them; a file that is cut off has none, and breaks nothing."""
    file = io.BytesIO()
    Image.new("RGB", size, (200, 100, 50)).save(file, form, **options)
    data = file.getvalue()
    assert image_sizes.size_of(data) == size
    for end in range(min(len(data), 700)):
        assert image_sizes.size_of(data[:end]) in (None, (0, 0), size)


@given(
    st.binary(max_size=80), st.sampled_from((b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"GIF89a", b"RIFF____WEBP"))
)
def test_any_bytes_are_read(data, begin):
    """A size of at least 0, or none."""
    found = image_sizes.size_of(begin + data)
    assert found is None or min(found) >= 0
    assert image_sizes.size_of(data) is None or data[:1] in b"\x89\xffGR"


def test_segments_of_a_jpeg_are_bounded():
    """Thousands of empty ones are not gone through."""
    frame = b"\xff\xc0\0\x11\x08" + struct.pack(">HH", 480, 640)
    assert image_sizes.size_of(b"\xff\xd8" + b"\xff\xe0\0\x02" * 100 + frame) == (640, 480)
    assert image_sizes.size_of(b"\xff\xd8" + b"\xff\xe0\0\x02" * 4000 + frame) == (0, 0)
