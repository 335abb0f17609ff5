import openai
import pytest


@pytest.fixture
async def sdk(serve):
    """The real SDK against a live server, without retries that would hide an error."""
    async with (
        serve() as server,
        openai.AsyncOpenAI(
            base_url=f"{server.url}/v1",
            api_key="none",
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(verify=False),
        ) as client,
    ):
        yield client


QUESTION = [{"role": "user", "content": "How deep is the canal?"}]


async def test_chat(sdk):
    """A chat answer has as many words as tokens were asked for, and an exact usage."""
    answer = await sdk.chat.completions.create(model="tiny", messages=QUESTION, max_tokens=7)
    assert len(answer.choices[0].message.content.split()) == 7
    assert answer.choices[0].finish_reason == "length"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (
        6,
        7,
        13,
    )


async def test_streamed_chat_says_the_same(sdk):
    """The deltas of a stream add up to the answer that is not streamed."""
    whole = await sdk.chat.completions.create(model="tiny", messages=QUESTION, max_tokens=20)
    stream = await sdk.chat.completions.create(
        model="tiny", messages=QUESTION, max_tokens=20, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage


async def test_completion_of_several_prompts(sdk):
    """Each prompt gets n choices, numbered through; the prompts count once in the usage."""
    answer = await sdk.completions.create(model="tiny", prompt=["one two", "three"], n=2, max_tokens=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert len({choice.text for choice in answer.choices}) == 4
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (4, 12)


@pytest.mark.parametrize(
    ("prompt", "tokens"), [("abcde", 2), (["abcd"], 1), ([5, 6, 7], 3), ([[1, 2], [3]], 3)]
)
async def test_every_form_of_prompt(sdk, prompt, tokens):
    """Text counts a token for four characters, token ids count themselves."""
    answer = await sdk.completions.create(model="tiny", prompt=prompt, max_tokens=1)
    assert answer.usage.prompt_tokens == tokens


async def test_streamed_completion_of_several_choices(sdk):
    """Choices of one stream come interleaved, each complete and with its own end."""
    stream = await sdk.completions.create(model="tiny", prompt="x", n=3, max_tokens=4, stream=True)
    texts, ends = {}, {}
    async for chunk in stream:
        choice = chunk.choices[0]
        texts[choice.index] = texts.get(choice.index, "") + choice.text
        if choice.finish_reason:
            ends[choice.index] = choice.finish_reason
    assert {index: len(text.split()) for index, text in texts.items()} == {0: 4, 1: 4, 2: 4}
    assert ends == {0: "length", 1: "length", 2: "length"}


async def test_message_content_in_parts(sdk):
    """Text parts of a message count like one text."""
    parts = [{"type": "text", "text": "How deep"}, {"type": "text", "text": " is the canal?"}]
    answer = await sdk.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": parts}], max_completion_tokens=1
    )
    assert answer.usage.prompt_tokens == 6


async def test_models(sdk):
    """The served name is listed."""
    assert [model.id async for model in sdk.models.list()] == ["tiny"]


async def test_an_unknown_model_is_not_found(sdk):
    """The SDK raises its own NotFoundError with the name in the message."""
    with pytest.raises(openai.NotFoundError, match="The model `huge` does not exist"):
        await sdk.chat.completions.create(model="huge", messages=QUESTION)
