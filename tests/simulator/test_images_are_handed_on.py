import base64

import pytest

CHAT, GENERATE = "/v1/chat/completions", "/inference/v1/generate"


def look_at(*urls):
    """A chat about images."""
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": "What is it?"}]}]


async def post(server, path, status=200, **body):
    answer = await server.client.post(path, json={"model": "tiny"} | body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_a_rendered_prompt_tells_of_its_images(serve):
    """Hashes and places, in their order; text alone has no features."""
    async with serve() as server:
        rendered = await post(server, f"{CHAT}/render", messages=look_at("a.png", "b.png"))
        same = await post(server, f"{CHAT}/render", messages=look_at("b.png"))
        text = await post(server, f"{CHAT}/render", messages=[{"role": "user", "content": "How deep?"}])
    features = rendered["features"]
    assert features["mm_placeholders"] == {
        "image": [{"offset": 0, "length": 256}, {"offset": 256, "length": 256}]
    }
    hashes = features["mm_hashes"]["image"]
    assert len(set(hashes)) == 2
    assert same["features"]["mm_hashes"]["image"] == hashes[1:]
    assert text["features"] is None


async def test_what_is_rendered_is_found_in_the_cache_of_the_chat(serve):
    """The same image is the same prompt, whichever way it came."""
    async with serve() as server:
        await post(server, CHAT, messages=look_at("a.png"), max_tokens=1)
        rendered = await post(server, f"{CHAT}/render", messages=look_at("a.png"), max_tokens=1)
        await post(server, GENERATE, **rendered)
        page = (await server.client.get("/metrics")).text
    assert 'vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 256.0' in page


async def test_placeholders_are_told_apart_by_their_hashes(serve):
    """Equal ids, as other tokenizers have them for any image, share a cache only for the same image."""
    async with serve() as server:
        cached = []
        for digest in ("one", "two", "one"):
            features = {
                "mm_hashes": {"image": [digest]},
                "mm_placeholders": {"image": [{"offset": 4, "length": 60}]},
            }
            body = {
                "token_ids": [1, 2, 3, 4] + [99] * 60 + [5] * 16,
                "sampling_params": {"max_tokens": 1},
                "features": features,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
            answer = await server.client.post(GENERATE, json=body)
            cached.append('"cached_tokens":64' in answer.text)
    assert cached == [False, False, True]


async def test_an_answer_says_where_its_images_are_encoded(serve):
    """For the engine that prefills; text alone has nothing to say."""
    async with serve() as server:
        rendered = await post(server, f"{CHAT}/render", messages=look_at("a.png"), max_tokens=1)
        generated = await post(server, GENERATE, **rendered)
        chat = await post(server, CHAT, messages=look_at("a.png"), max_tokens=1)
        text = await post(server, CHAT, messages=[{"role": "user", "content": "How deep?"}], max_tokens=1)
        port = server.client.base_url.port
    (digest,) = rendered["features"]["mm_hashes"]["image"]
    told = {
        "peer_host": "127.0.0.1",
        "peer_port": port,
        "num_encoder_tokens": 256,
        "size_bytes": 2_359_296,
        "nixl_agent_metadata_b64": base64.b64encode(f"127.0.0.1:{port}".encode()).decode(),
    }
    assert generated["ec_transfer_params"] == chat["ec_transfer_params"] == {digest: told}
    assert "ec_transfer_params" not in text


async def test_an_image_is_encoded_once(serve):
    """Its time is waited for; who has it already, or gets it from another engine, does not wait."""
    async with serve(mm_encode_s=0.05, mm_cached_items=2) as first, serve(mm_encode_s=600.0) as second:
        for url in ("a.png", "a.png", "b.png", "c.png", "a.png"):
            answer = await post(first, CHAT, messages=look_at(url), max_tokens=1)
        page = (await first.client.get("/metrics")).text
        await post(
            second,
            CHAT,
            messages=look_at("a.png"),
            max_tokens=1,
            ec_transfer_params=answer["ec_transfer_params"],
        )
        await post(second, CHAT, messages=look_at("a.png"), max_tokens=1)
    assert 'vllm:mm_cache_queries_total{engine="0",model_name="tiny"} 5.0' in page
    assert 'vllm:mm_cache_hits_total{engine="0",model_name="tiny"} 1.0' in page


@pytest.mark.parametrize(
    ("hashes", "places", "field"),
    [
        ({"image": ["a"]}, {}, "features.mm_placeholders.image"),
        ({"image": ["a"]}, {"image": [{"offset": 0, "length": 9}] * 2}, "features.mm_placeholders.image"),
        ({"image": ["a"]}, {"image": [{"offset": 5, "length": 6}]}, "features.mm_placeholders.image[0]"),
        (
            {"image": ["a"]},
            {"image": [{"offset": -1, "length": 6}]},
            "features.mm_placeholders[...][0].offset",
        ),
        ({}, {"image": [{"offset": 0, "length": 6}]}, "features.mm_hashes"),
        (
            {"image": ["a"], "audio": ["b"]},
            {"image": [{"offset": 0, "length": 6}], "audio": [{"offset": 5, "length": 2}]},
            "features.mm_placeholders.audio",
        ),
    ],
)
async def test_features_that_do_not_fit_are_refused(serve, hashes, places, field):
    """A 400 that names the field."""
    async with serve() as server:
        features = {"mm_hashes": hashes, "mm_placeholders": places}
        body = {"token_ids": list(range(10)), "sampling_params": {}, "features": features}
        answer = await post(server, GENERATE, status=400, **body)
    assert answer["error"]["param"] == field


async def test_audio_and_video_are_handed_on_as_images_are(serve):
    """Each with its modality and its size."""
    parts = [
        {"type": "video_url", "video_url": {"url": "a.mp4"}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "audio_url", "audio_url": {"url": "b.mp3"}},
    ]
    async with serve() as server:
        rendered = await post(server, f"{CHAT}/render", messages=[{"role": "user", "content": parts}])
        answer = await post(server, CHAT, messages=[{"role": "user", "content": parts}], max_tokens=1)
    assert rendered["features"]["mm_placeholders"] == {
        "video": [{"offset": 0, "length": 1024}],
        "audio": [{"offset": 1024, "length": 128}, {"offset": 1152, "length": 128}],
    }
    assert len(answer["ec_transfer_params"]) == 3


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"type": "video_url"}, "messages[0].content[0].video_url"),
        ({"type": "input_audio", "audio_url": "a"}, "messages[0].content[0].input_audio"),
        ({"type": "smell"}, "messages[0].content[0].type"),
    ],
)
async def test_parts_without_what_they_are_of_are_refused(serve, part, field):
    """A 400 that names the field."""
    async with serve() as server:
        answer = await post(server, CHAT, status=400, messages=[{"role": "user", "content": [part]}])
    assert answer["error"]["param"] == field
