import pytest

CHAT = "/v1/chat/completions"


async def test_audio_and_video_count_by_their_kind(serve):
    """Each has its size in tokens, beside the text."""
    parts = [
        {"type": "video_url", "video_url": {"url": "a.mp4"}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "audio_url", "audio_url": {"url": "b.mp3"}},
        {"type": "text", "text": "What is it?"},
    ]
    body = {"model": "tiny", "messages": [{"role": "user", "content": parts}], "max_tokens": 1}
    async with serve() as server:
        answer = (await server.client.post(CHAT, json=body)).json()
    assert answer["usage"]["prompt_tokens"] == 1024 + 128 + 128 + 3


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
    body = {"model": "tiny", "messages": [{"role": "user", "content": [part]}]}
    async with serve() as server:
        answer = await server.client.post(CHAT, json=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == field
