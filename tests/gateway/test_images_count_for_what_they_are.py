"""Images and audio in a prompt are detected, and count as the tokens that models make of them."""

import base64
import json
import random
import struct

import pytest

from headgate.requests.bodies import media, prompt
from headgate.requests.bodies.fields import inspect

RNG = random.Random(3)
NOISE = RNG.randbytes(1_000_000)


def png(width, height, data=NOISE):
    return b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", width, height) + data


def jpeg(width, height):
    thumbnail = b"\xff\xe1" + struct.pack(">H", 2 + 5000) + NOISE[:5000]
    return b"\xff\xd8" + thumbnail + b"\xff\xc0\0\x11\x08" + struct.pack(">HH", height, width) + NOISE


def read(part, path="/v1/chat/completions"):
    content = [{"type": "text", "text": "What is this? " * 400}, part]
    body = {"model": "m", "messages": [{"role": "user", "content": content}]}
    return prompt.read(inspect(json.dumps(body).encode()), path)


def data_url(data, kind="image/png"):
    url = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def anthropic(data, kind="image/png"):
    source = {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


def audio(data):
    return {"type": "input_audio", "input_audio": {"data": base64.b64encode(data).decode(), "format": "wav"}}


TEXT_BYTES = read({"type": "text", "text": ""}).size


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        (data_url(png(1024, 768)), 768),
        (anthropic(png(1024, 768)), 768),
        (data_url(png(64, 64)), 64),
        (data_url(png(60_000, 60_000)), 16_384),
        (data_url(jpeg(1920, 1080), "image/jpeg"), 2025),
        (data_url(b"\xff\xd8" + NOISE, "image/jpeg"), 3906),
        (data_url(b"GIF89a" + struct.pack("<HH", 640, 320) + NOISE, "image/gif"), 200),
        (data_url(b"RIFF\0\0\0\0WEBP" + NOISE, "image/webp"), 3906),
        (audio(b"RIFF\0\0\0\0WAVE" + NOISE), 3126),
        (data_url(b"%PDF-1.7" + NOISE, "application/pdf"), 2250),
    ],
)
def test_a_megabyte_counts_for_what_a_model_makes_of_it(part, tokens):
    """By the size of the image or the length of the audio, where it says that."""
    found = read(part)
    assert found.has_media
    assert abs((found.size - TEXT_BYTES) / media.TEXT_BYTES_PER_TOKEN - tokens) < 40


@pytest.mark.parametrize("part", [data_url, anthropic])
def test_another_image_is_another_prompt(part):
    """The same image is the same, one that differs in its last byte is not; the text before it stays."""
    one, same = read(part(png(900, 900))), read(part(png(900, 900)))
    other = read(part(png(900, 900, NOISE[:-1] + b"!")))
    assert one.text == same.text
    assert one.text != other.text
    assert one.size == other.size
    assert one.text[:5000] == other.text[:5000]


def test_images_by_reference_and_small_ones_stay_as_they_are():
    """They are short, and their text is who they are."""
    for part in (
        data_url(b"GIF89a"),
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    ):
        assert not read(part).has_media


def test_text_about_images_is_text():
    """LogFieldCache like those of a data URL do not make one."""
    prose = {
        "type": "text",
        "text": 'A data URL has ";base64,' + " and so on" * 500 + '"data":"' + "x y" * 999,
    }
    assert not read(prose).has_media


def test_a_text_that_breaks_off_is_no_image():
    """What is cut off within base64 is left alone."""
    cut = b'{"data":"' + base64.b64encode(NOISE[:9000])
    for text in (cut, cut.replace(b'"data":"', b'"url":";base64,')):
        assert media.replaced(text, len(text)) == (text, len(text))


def test_an_image_of_many_empty_segments_is_not_gone_through():
    """A body may have thousands of those; the size of such an image is taken from its length."""
    frame = b"\xff\xc0\0\x11\x08" + struct.pack(">HH", 640, 640) + NOISE[:20_000]
    few, many = (b"\xff\xd8" + b"\xff\xe0\0\x02" * count + frame for count in (100, 4000))
    assert media.tokens(base64.b64encode(few)) == 640 * 640 // media.PIXELS_PER_TOKEN
    assert media.tokens(base64.b64encode(many)) == len(many) * media.PIXELS_PER_BYTE // media.PIXELS_PER_TOKEN
