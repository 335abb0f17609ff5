"""The endpoint pickers under comparison, and the Envoy that asks them."""

from pickers.programs import Headgate, LlmD, Naive, Picker, Reference

__all__ = ["PICKERS", "Picker"]

_ALL: tuple[type[Picker], ...] = (Headgate, Naive, Reference, LlmD)
PICKERS = {picker.name: picker for picker in _ALL}
