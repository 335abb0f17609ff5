"""What Models do, wherever they run: on the real control plane with `headgate node` as its node, or on the
embedded API server. Rejected Models are the cases of tests/conformance and tests/api/admission.
"""

from __future__ import annotations

import model_adapters
import model_engines
import model_objects
import model_status
from world_of_models import Behavior

BEHAVIORS: tuple[Behavior, ...] = (
    *model_objects.BEHAVIORS,
    *model_engines.BEHAVIORS,
    *model_adapters.BEHAVIORS,
    *model_status.BEHAVIORS,
)
