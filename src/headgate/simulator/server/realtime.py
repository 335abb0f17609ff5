"""The realtime API over WebSocket: a conversation that answers with what it was told last.

Other messages come back as they are, so that what lies between client and engine can be tested.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from headgate.simulator.model import tokenize
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.instance import Instance

MAX_ITEMS: Final = 1000
_REFUSED: Final = 1008


class Realtime:
    """Serves /v1/realtime."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    async def serve(self, socket: WebSocket) -> None:
        model = socket.query_params.get("model", "")
        try:
            self._instance.generator.require_ready()
            self._instance.generator.require_model(model or None)
        except ApiError:
            await socket.close(_REFUSED)  # before it is accepted, this is a 403
            return
        asked = socket.scope.get("subprotocols") or []
        await socket.accept(subprotocol="realtime" if "realtime" in asked else None)
        conversation = Conversation(model or self._instance.settings.models[0])
        try:
            await socket.send_text(_text(conversation.created()))
            while True:
                message = await socket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                if (data := message.get("bytes")) is not None:
                    await socket.send_bytes(data)
                    continue
                for event in conversation.told(message["text"]):
                    await socket.send_text(event)
        except WebSocketDisconnect:
            pass


class Conversation:
    """What was said in a session."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._texts: list[str] = []
        self._number = 0

    def created(self) -> dict[str, Any]:
        return self._event("session.created", session=self._session())

    def told(self, text: str) -> list[str]:
        """The events that follow a message of the client."""
        try:
            event = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError):
            return [text]
        match event.get("type") if isinstance(event, dict) else None:
            case "session.update":
                return [_text(self._event("session.updated", session=self._session()))]
            case "conversation.item.create":
                return [_text(self._added(event.get("item")))]
            case "input_audio_buffer.append":
                return []
            case "response.create":
                return [_text(each) for each in self._answer()]
        return [text]

    def _session(self) -> dict[str, Any]:
        return {
            "id": "sess_simulated",
            "object": "realtime.session",
            "type": "realtime",
            "model": self._model,
        }

    def _added(self, item: Any) -> dict[str, Any]:
        parts = item.get("content") if isinstance(item, dict) else None
        said = [str(part.get("text") or "") for part in parts or () if isinstance(part, dict)]
        if len(self._texts) < MAX_ITEMS:
            self._texts.append(" ".join(said))
        return self._event("conversation.item.created", item=item)

    def _answer(self) -> list[dict[str, Any]]:
        text = self._texts[-1] if self._texts else ""
        known = {"response_id": "resp_1", "item_id": "item_1", "output_index": 0, "content_index": 0}
        prompt, answer = sum(len(tokenize(each)) for each in self._texts), len(tokenize(text))
        response = {
            "id": "resp_1",
            "object": "realtime.response",
            "status": "completed",
            "output": [],
            "usage": {"total_tokens": prompt + answer, "input_tokens": prompt, "output_tokens": answer},
        }
        self._texts.append(text)
        begun = {"id": "resp_1", "object": "realtime.response", "status": "in_progress", "output": []}
        return [
            self._event("response.created", response=begun),
            *(self._event("response.output_text.delta", delta=word, **known) for word in text.split(" ")),
            self._event("response.output_text.done", text=text, **known),
            self._event("response.done", response=response),
        ]

    def _event(self, kind: str, **members: Any) -> dict[str, Any]:
        self._number += 1
        return {"type": kind, "event_id": f"event_{self._number}", **members}


def _text(event: dict[str, Any]) -> str:
    return msgspec.json.encode(event).decode()
