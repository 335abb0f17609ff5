"""Reads a multipart form as its bytes come, so that a large file need not be held."""

from __future__ import annotations

from typing import Final

from headgate.requests.bodies import forms
from headgate.requests.bodies.form_parts import Parts, UnclearError
from headgate.requests.refusal import Refusal

_TAIL_BYTES: Final = forms.MAX_NAME_BYTES + 128
"""Kept of what came before: the longest value that is read, and the longest boundary behind it."""


class FormStream:
    """One form, which is the same as `forms.read` would find in the whole, wherever its bytes are cut."""

    __slots__ = ("_found", "_parts", "_read_bytes", "_tail", "form", "is_stream")

    def __init__(self, boundary: bytes) -> None:
        self._parts = Parts(boundary, forms.READ)
        self._found = 0
        """The number of parts whose values were read."""
        self._read_bytes = 0
        self._tail = b""
        """The end of what came before."""
        self.form: forms.Form | None = None
        """Set once the part `model` is complete."""
        self.is_stream = False
        """Whether a part `stream` has asked for a stream so far."""

    @property
    def is_complete(self) -> bool:
        """Whether the last boundary was read."""
        return self._parts.is_complete

    def feed(self, data: bytes) -> Refusal | None:
        """Read the next bytes; returns why the form is rejected, if it is. Nothing more may be fed then."""
        refusal = None
        try:
            self._parts.feed(data)
            if len(self._parts.found) > self._found:
                refusal = self._read_values(data)
        except UnclearError as error:
            refusal = forms.unclear(error)
        self._read_bytes += len(data)
        short = len(data) < _TAIL_BYTES
        self._tail = (self._tail + data)[-_TAIL_BYTES:] if short else data[-_TAIL_BYTES:]
        return refusal

    def finish(self) -> Refusal | None:
        """The body ends here; returns why the form is rejected, if it is."""
        try:
            self._parts.finish()
        except UnclearError as error:
            return forms.unclear(error)
        return forms.no_model() if self.form is None else None

    def _read_values(self, data: bytes) -> Refusal | None:
        found = self._parts.found
        self._found = len(found)
        text = self._tail + data
        first = self._read_bytes - len(self._tail)
        if (stream := found.get(b"stream")) is not None and stream[0] >= first:
            self.is_stream = forms.is_true(text[stream[0] - first : stream[1] - first])
        if self.form is None and (place := found.get(b"model")) is not None:
            start, end = place
            if start < first:
                raise UnclearError(f"the part `model` is longer than {forms.MAX_NAME_BYTES} bytes")
            model = forms.model_of(text[start - first : end - first])
            if isinstance(model, Refusal):
                return model
            self.form = forms.Form(model, self.is_stream, start, end)
        return None
