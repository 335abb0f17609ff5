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


def read(part, path="/v1/chat/completions", model="m"):
    """The prompt as the model gets it."""
    found = asked(part, path)
    return prompt.placed(found, model) if found.media else found


def asked(part, path="/v1/chat/completions"):
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
    assert found.media
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
        assert not read(part).media


def test_text_about_images_is_text():
    """LogFieldCache like those of a data URL do not make one."""
    prose = {
        "type": "text",
        "text": 'A data URL has ";base64,' + " and so on" * 500 + '"data":"' + "x y" * 999,
    }
    assert not read(prose).media


def test_a_text_that_breaks_off_is_no_image():
    """What is cut off within base64 is left alone."""
    cut = b'{"data":"' + base64.b64encode(NOISE[:9000])
    for text in (cut, cut.replace(b'"data":"', b'"url":";base64,')):
        assert media.split(text, len(text)) == ([text], [], len(text))


def test_an_image_of_many_empty_segments_is_not_gone_through():
    """A body may have thousands of those; the size of such an image is taken from its length."""
    frame = b"\xff\xc0\0\x11\x08" + struct.pack(">HH", 640, 640) + NOISE[:20_000]
    few, many = (b"\xff\xd8" + b"\xff\xe0\0\x02" * count + frame for count in (100, 4000))
    [medium] = asked(data_url(few, "image/jpeg")).media
    assert (medium.width, medium.height) == (640, 640)
    [medium] = asked(data_url(many, "image/jpeg")).media
    assert medium.width * medium.height == pytest.approx(len(many) * media.PIXELS_PER_BYTE, rel=0.01)


@pytest.mark.parametrize("part", [data_url, anthropic])
def test_bytes_of_images_are_no_text(part):
    """Neither in the size of the prompt nor in what is hashed: only a digest stands for them."""
    image = png(1000, 1000)
    found = read(part(image))
    coded = base64.b64encode(image)
    assert not any(coded[at : at + 24] in found.text for at in (0, 5000, len(coded) - 24))
    assert found.size < TEXT_BYTES + 10_000


def test_each_model_has_its_own_count():
    """By the name that the endpoint has for it; the text before the image stays."""
    part = data_url(png(1300, 876))
    sizes = {model: read(part, model=model).size for model in ("m", "Qwen/Qwen2-VL-2B-Instruct", "gemma-3")}
    assert sizes["Qwen/Qwen2-VL-2B-Instruct"] - sizes["gemma-3"] == 4 * (1426 - 256)
    assert sizes["m"] - sizes["gemma-3"] == 4 * (1300 * 876 // 1024 - 256)


def test_long_prompts_are_cut_where_hashes_end():
    """However many images stand in them."""
    text = {"type": "text", "text": "and " * 400_000}
    content = [part for number in range(8) for part in (data_url(png(900, 900 + number, NOISE[:9000])), text)]
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": content}]}).encode()
    found = prompt.placed(prompt.read(inspect(body), "/v1/chat/completions"), "m")
    assert len(found.text) == prompt.HASHED_BYTES
    assert found.size > 12_800_000


async def test_the_scheduler_sees_the_models_tokens(start_gateway, endpoint):
    """Small bodies, and large ones that are read in a thread; what is sent is the client's."""
    gateway = await start_gateway(endpoint, model="Qwen/Qwen2.5-VL-7B-Instruct")
    for image in (png(1300, 876, NOISE[:9000]), png(1300, 876)):
        content = [data_url(image)]
        client = await gateway.connect()
        client.post({"model": "m", "messages": [{"role": "user", "content": content}]})
        call = await endpoint.call()
        (connection,) = [each for each in gateway.shell.clients.all if each.exchange is not None]
        assert abs(connection.exchange.life.decision.scheduled.prompt_tokens - 1426) < 50
        assert base64.b64encode(image) in call.body
        call.answer(b"{}")
        await client.response()
        client.close()


async def test_rerank_counts_all_of_its_texts(gateway, endpoint):
    """A body without a prompt counts as a whole."""
    client = await gateway.connect()
    client.post({"model": "m", "query": "depth", "documents": ["the canal " * 100] * 10}, "/rerank")
    call = await endpoint.call()
    (connection,) = gateway.shell.clients.all
    assert connection.exchange.life.decision.scheduled.prompt_tokens > 2000
    call.answer(b"{}")


@pytest.mark.parametrize("words", ["deep canal ", "deep,canal,", "\u6c34\u8def", "caf\u00e9"])
@pytest.mark.parametrize("begin", ["data:image/png;base64,", ";base64,"])
@pytest.mark.parametrize("is_escaped", [True, False])
def test_a_text_that_begins_like_a_file_is_one(words, begin, is_escaped):
    """Whoever sends it pays for all of it, and not for an image of one pixel."""
    image = base64.b64encode(png(1, 1, b"x" * 300)).decode()
    text = begin + image + words * 20_000
    content = [{"type": "text", "text": text}]
    body = json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": content}]}, ensure_ascii=is_escaped
    )
    found = prompt.read(inspect(body.encode()), "/v1/chat/completions")
    assert not found.media
    assert found.size > len(words.encode()) * 20_000
    large = prompt.read_large(body.encode(), {"messages": (body.index("["), len(body.encode()) - 1)}, "/v1")
    assert not large.media
