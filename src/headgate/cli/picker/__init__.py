"""`headgate picker`: turn flags, named as the reference implementation names them, into settings.

Reads arguments and the EndpointPickerConfig; passes settings to the picker.
"""

from headgate.cli.picker.command import picker

__all__ = ["picker"]
