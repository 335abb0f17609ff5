"""What Models do, wherever they run: on the real control plane with `headgate node` as its node, or on the
embedded API server. Models that are rejected (cases M10 and M12 to M15) are in tests/api/admission/cases, for
both as well.
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
