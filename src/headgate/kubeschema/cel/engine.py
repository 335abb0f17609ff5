"""The package `cel` without its command line.

`import cel` also imports `cel.cli`, and with it prompt_toolkit and rich: 0.2 s of CPU for every process and
command that validates objects. Nothing here uses it, so an empty module replaces it during the import.
"""

import logging
import sys
import types

_CLI = "cel.cli"
_is_loaded = _CLI in sys.modules
sys.modules.setdefault(_CLI, types.ModuleType(_CLI))
try:
    import cel
finally:
    if not _is_loaded:
        del sys.modules[_CLI]

# It logs each exception of a function, which is an error of the expression and reported as such.
logging.getLogger("cel").setLevel(logging.CRITICAL + 1)

__all__ = ["cel"]
