"""Conversations of all APIs in the form of OpenAI's chats, which is the one that render services read.

The bodies have passed their readers in `bodies`, so their fields have the types that those demand.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

Json = dict[str, Any]
_CHAT_FIELDS = (
    "messages",
    "tools",
    "tool_choice",
    "documents",
    "reasoning_effort",
    "chat_template",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
    "add_special_tokens",
    "mm_processor_kwargs",
)
"""What of a chat a template may look at."""


_TOKENIZE_FIELDS = {*_CHAT_FIELDS, "prompt", "return_token_strs"}


def of_chat(body: bytes) -> Json:
    asked: Json = msgspec.json.decode(body)
    return {name: asked[name] for name in _CHAT_FIELDS if asked.get(name) is not None}


def of_tokenize(body: bytes) -> Json:
    """A text, or messages, for /tokenize."""
    asked: Json = msgspec.json.decode(body)
    if not asked.get("messages"):
        asked = {"prompt": asked.get("prompt") or "", **asked}
    return {name: value for name, value in asked.items() if name in _TOKENIZE_FIELDS and value is not None}


def of_responses(body: bytes) -> Json:
    asked: Json = msgspec.json.decode(body)
    given = asked["input"]
    items = [{"content": given}] if isinstance(given, str) else given
    messages = [message for item in items for message in _of_item(item)]
    if asked.get("instructions"):
        messages.insert(0, {"role": "system", "content": asked["instructions"]})
    tools = [tool for tool in asked.get("tools") or () if tool.get("type", "function") == "function"]
    return _form(messages, [_tool(tool, "parameters") for tool in tools])


def of_messages(body: bytes) -> Json:
    asked: Json = msgspec.json.decode(body)
    messages = [message for turn in asked["messages"] for message in _of_turn(turn)]
    if asked.get("system"):
        messages.insert(0, {"role": "system", "content": _parts(asked["system"])})
    return _form(messages, [_tool(tool, "input_schema") for tool in asked.get("tools") or ()])


def _form(messages: list[Json], tools: list[Json]) -> Json:
    return {"messages": messages, "tools": tools} if tools else {"messages": messages}


def _tool(tool: Json, schema: str) -> Json:
    described = {name: tool[name] for name in ("name", "description") if tool.get(name)}
    return {"type": "function", "function": described | {"parameters": tool.get(schema) or {}}}


def _call(call_id: str, name: str, arguments: str) -> Json:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _of_item(item: Json) -> Iterator[Json]:
    """A part of the input of Responses; their reasoning is no part of a prompt."""
    match item.get("type", "message"):
        case "message":
            content = item.get("content")
            parts = content if content is None or isinstance(content, str) else list(map(_part, content))
            yield {"role": item.get("role", "user"), "content": parts}
        case "function_call":
            call = _call(item.get("call_id", ""), item.get("name", ""), item.get("arguments", ""))
            yield {"role": "assistant", "content": None, "tool_calls": [call]}
        case "function_call_output":
            yield _result(item.get("call_id", ""), item.get("output"))


def _part(part: Json) -> Json:
    match part["type"]:
        case "input_text" | "output_text":
            return {"type": "text", "text": part["text"]}
        case "input_image":
            url = part["image_url"]
            return {"type": "image_url", "image_url": url if isinstance(url, dict) else {"url": url}}
        case _:
            return part


def _of_turn(turn: Json) -> Iterator[Json]:
    """A message of Anthropic's; what tools gave back are messages of their own."""
    content = turn["content"]
    if isinstance(content, str):
        yield {"role": turn["role"], "content": content}
        return
    for block in content:
        if block["type"] == "tool_result":
            yield _result(block.get("tool_use_id", ""), _parts(block.get("content")))
    calls = [
        _call(block.get("id", ""), block.get("name", ""), _text(block.get("input")))
        for block in content
        if block["type"] == "tool_use"
    ]
    said = _parts(content)
    if said or calls:
        yield {"role": turn["role"], "content": said or None} | ({"tool_calls": calls} if calls else {})


def _parts(content: Any) -> Any:
    """Texts and images of Anthropic's blocks; a text and what is no list of blocks as it is."""
    if not isinstance(content, list):
        return content
    parts: list[Json] = []
    for block in content:
        match block:
            case {"type": "text", "text": text}:
                parts.append({"type": "text", "text": text})
            case {"type": "image", "source": source}:
                parts.append({"type": "image_url", "image_url": {"url": _url(source)}})
    return parts


def _url(source: Any) -> str:
    match source:
        case {"url": str(url)}:
            return url
        case {"data": str(data)}:
            return f"data:{source.get('media_type', 'image/png')};base64,{data}"
        case _:
            return _text(source)


def _result(call_id: str, output: Any) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": _text(output)}


def _text(value: Any) -> str:
    """What is no text as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()
